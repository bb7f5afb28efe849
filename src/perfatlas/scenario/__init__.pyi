from .arrivals import (
    Arriving as Arriving,
    arriving as arriving,
)
from .cache_tiers import (
    tier_results as tier_results,
)
from .capacity import (
    cache_capacity as cache_capacity,
)
from .closed_loop import (
    steady_state as steady_state,
)
from .engine_deployment import (
    Deployment as Deployment,
    Priced as Priced,
    deployment as deployment,
)
from .field_columns import (
    BoolArray as BoolArray,
    columns_of as columns_of,
)
from .heterogeneous_replicas import (
    kind_column as kind_column,
    kind_results as kind_results,
    kinds_evidence as kinds_evidence,
    of_all as of_all,
    parts_of as parts_of,
    resolved_kinds as resolved_kinds,
)
from .operation import (
    shared_fields as shared_fields,
)
from .pools import (
    asked_of_pools as asked_of_pools,
    pool_load as pool_load,
    split_pools as split_pools,
)
from .rate_stability import (
    Flow as Flow,
    behind as behind,
    flow as flow,
    needed_units as needed_units,
    unfilled as unfilled,
)
from .replica_results import (
    operated_results as operated_results,
)
from .resolution import (
    EVALUATED as EVALUATED,
    Group as Group,
    Pool as Pool,
    Resolution as Resolution,
    resolve as resolve,
)
from .resolved_scenario import (
    resolve_scenarios as resolve_scenarios,
)
from .scenario_checks import (
    read_scenario as read_scenario,
)
from .services import (
    Service as Service,
    fleet_of as fleet_of,
    price_ends as price_ends,
    reseeded as reseeded,
    run_traffic as run_traffic,
    service as service,
    slowed as slowed,
)
from .simulation_choice import (
    are_pools_simulated as are_pools_simulated,
    is_simulated as is_simulated,
    may_be_simulated as may_be_simulated,
)
from .simulation_remarks import (
    said_of_client as said_of_client,
    said_of_interval as said_of_interval,
    said_of_seeds as said_of_seeds,
    traffic_warnings as traffic_warnings,
)
from .traffic import (
    TRAFFIC_NAMES as TRAFFIC_NAMES,
    Traffic as Traffic,
    parse_traffic as parse_traffic,
)
from .unused_options import (
    idle_remarks as idle_remarks,
    refuse_unread as refuse_unread,
)
from .vocabulary import (
    FIELD_NAMES as FIELD_NAMES,
    Count as Count,
    Scenario as Scenario,
    check_distribution as check_distribution,
    sentences as sentences,
)
