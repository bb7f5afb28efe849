from .catalog import (
    PublishedRate as PublishedRate,
    find_duration as find_duration,
    find_rate as find_rate,
    published_durations as published_durations,
    published_rates as published_rates,
)
from .checks import (
    cause_rate_per_s as cause_rate_per_s,
    check_fleet as check_fleet,
    check_strategy as check_strategy,
)
from .facts import (
    fleet_facts as fleet_facts,
    initial_ages_text as initial_ages_text,
    mean_repair_s as mean_repair_s,
)
from .identity import (
    units_differ as units_differ,
)
from .launchers import (
    RecoveryPolicy as RecoveryPolicy,
    recovery_policies as recovery_policies,
    under_policy as under_policy,
    with_policy as with_policy,
)
from .memoryless import (
    not_memoryless as not_memoryless,
)
from .model import (
    NO_REPAIR_TIMES as NO_REPAIR_TIMES,
    Cause as Cause,
    Fleet as Fleet,
    Job as Job,
    Lemons as Lemons,
    Level as Level,
    Maintenance as Maintenance,
    Reach as Reach,
    Repair as Repair,
    RepairStage as RepairStage,
    Restart as Restart,
    Shrink as Shrink,
    Spares as Spares,
    Strategy as Strategy,
    collective_init_s as collective_init_s,
    one_cause as one_cause,
)
from .packing import (
    Packed as Packed,
    fleet_rate_per_s as fleet_rate_per_s,
    grown as grown,
    needed_level as needed_level,
    pack as pack,
    ticks as ticks,
)
from .shipped import (
    read_evidence as read_evidence,
    resolve_fleet as resolve_fleet,
    resolve_strategies as resolve_strategies,
    shipped_fleets as shipped_fleets,
)
from .strategy_file import (
    StrategyTable as StrategyTable,
    choose as choose,
)
from .topology import (
    FailureDomains as FailureDomains,
    failure_domains as failure_domains,
)
