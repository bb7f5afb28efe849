from .cache_tiers import (
    TierSizes as TierSizes,
    tier_results as tier_results,
    tier_sizes as tier_sizes,
)
from .operation import (
    shared_fields as shared_fields,
)
from .replica_kinds import (
    ReplicaKind as ReplicaKind,
    kind_scenarios as kind_scenarios,
)
from .traffic import (
    OF_GENERATED as OF_GENERATED,
    TRAFFIC_NAMES as TRAFFIC_NAMES,
    Traffic as Traffic,
    parse_traffic as parse_traffic,
)
from .vocabulary import (
    FIELD_NAMES as FIELD_NAMES,
    MAX_COUNT as MAX_COUNT,
    Count as Count,
    Scenario as Scenario,
    check_distribution as check_distribution,
    parse_scenario as parse_scenario,
    sentences as sentences,
)
