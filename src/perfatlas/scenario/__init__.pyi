from .cache_tiers import tier_results as tier_results
from .capacity import cache_capacity as cache_capacity
from .closed_loop import (
    are_pools_simulated as are_pools_simulated,
    is_simulated as is_simulated,
    steady_state as steady_state,
)
from .disaggregated import (
    POOLS as POOLS,
    PoolRates as PoolRates,
    asked_of_pools as asked_of_pools,
    split_pools as split_pools,
)
from .engine_deployment import (
    Deployment as Deployment,
    Priced as Priced,
    deployment as deployment,
)
from .estimate_warnings import (
    LEAVES_OUT as LEAVES_OUT,
    question_warnings as question_warnings,
)
from .evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
    select as select,
    step_context as step_context,
)
from .evidence import (
    FORMULA as FORMULA,
    engine_assumptions as engine_assumptions,
    merged_evidence as merged_evidence,
    question_evidence as question_evidence,
    step_evidence as step_evidence,
)
from .groups import Groups as Groups
from .heterogeneous_replicas import (
    kind_column as kind_column,
    kind_results as kind_results,
    kinds_evidence as kinds_evidence,
    of_all as of_all,
    parts_of as parts_of,
    resolved_kinds as resolved_kinds,
)
from .memory import does_not_fit as does_not_fit
from .rate_stability import (
    Flow as Flow,
    behind as behind,
    flow as flow,
    needed_units as needed_units,
    unfilled as unfilled,
)
from .replica_kinds import shared_fields as shared_fields
from .replica_results import operated_results as operated_results
from .resolved_scenario import (
    Question as Question,
    has_experts as has_experts,
    plan_sizes as plan_sizes,
    resolve_question as resolve_question,
)
from .results import (
    MEMORY as MEMORY,
    memory_columns as memory_columns,
    plain_column as plain_column,
    plain_results as plain_results,
    result_columns as result_columns,
)
from .scenario_checks import read_scenario as read_scenario
from .services import (
    Service as Service,
    fleet_of as fleet_of,
    price_ends as price_ends,
    reseeded as reseeded,
    run_traffic as run_traffic,
    service as service,
    slowed as slowed,
)
from .serving_formula import (
    ClientSide as ClientSide,
    Joining as Joining,
    Latencies as Latencies,
    aggregated_latencies as aggregated_latencies,
    at_client as at_client,
    joining_s as joining_s,
    pipelined_s as pipelined_s,
    static_latencies as static_latencies,
)
from .simulation_remarks import (
    said_of_client as said_of_client,
    said_of_interval as said_of_interval,
    said_of_seeds as said_of_seeds,
    traffic_warnings as traffic_warnings,
)
from .traffic import (
    TRAFFIC_NAMES as TRAFFIC_NAMES,
    Arriving as Arriving,
    Traffic as Traffic,
    arriving as arriving,
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
