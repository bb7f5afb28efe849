from .field_columns import (
    BoolArray as BoolArray,
    columns_of as columns_of,
)
from .model_formats import (
    half_format as half_format,
)
from .plan_from_gpus import (
    planned_scenario as planned_scenario,
)
from .pools import (
    SHARED as SHARED,
    pool_load as pool_load,
    split_pools as split_pools,
    worker_batches as worker_batches,
)
from .resolved_names import (
    format_of as format_of,
    kernel_engine as kernel_engine,
    pool_plan as pool_plan,
    resolved_plan as resolved_plan,
    with_formats as with_formats,
)
from .resolved_scenario import (
    resolve_scenarios as resolve_scenarios,
)
from .scenario_checks import (
    read_scenario as read_scenario,
)
from .simulation_choice import (
    ROUNDS as ROUNDS,
    WARM_ROUNDS as WARM_ROUNDS,
    are_pools_simulated as are_pools_simulated,
    is_simulated as is_simulated,
    may_be_simulated as may_be_simulated,
)
from .spread import (
    spread_candidates as spread_candidates,
)
from .tables import (
    EVALUATED as EVALUATED,
    Group as Group,
    Pool as Pool,
    Resolution as Resolution,
    resolve as resolve,
)
from .unused_fields import (
    expert_format as expert_format,
    is_overridden as is_overridden,
    overlapped_exchange as overlapped_exchange,
    overridden_format as overridden_format,
    overridden_sentence as overridden_sentence,
    several_ranks as several_ranks,
    token_exchange as token_exchange,
)
from .workers import (
    LIMITS as LIMITS,
)
