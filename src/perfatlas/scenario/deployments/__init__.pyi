from .arrivals import (
    Arriving as Arriving,
    arriving as arriving,
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
from .heterogeneous_replicas import (
    kind_column as kind_column,
    kind_results as kind_results,
    kinds_evidence as kinds_evidence,
    of_all as of_all,
    parts_of as parts_of,
    resolved_kinds as resolved_kinds,
)
from .load import (
    OfferedLoad as OfferedLoad,
    has_steady_rate as has_steady_rate,
    offered_load as offered_load,
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
from .services import (
    Service as Service,
    fleet_of as fleet_of,
    price_ends as price_ends,
    reseeded as reseeded,
    run_traffic as run_traffic,
    service as service,
    slowed as slowed,
)
from .simulation_remarks import (
    said_of_client as said_of_client,
    said_of_interval as said_of_interval,
    said_of_seeds as said_of_seeds,
    traffic_warnings as traffic_warnings,
)
from .unused_options import (
    draws as draws,
    idle_remarks as idle_remarks,
    refuse_unread as refuse_unread,
)
