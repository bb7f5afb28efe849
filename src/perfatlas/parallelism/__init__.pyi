from .advice import (
    NO_SINGLE_CHANGE as NO_SINGLE_CHANGE,
    shortfall_advice as shortfall_advice,
)
from .cache import (
    cache_borders as cache_borders,
    kv_bytes_per_sequence as kv_bytes_per_sequence,
)
from .exchange import (
    GATHERING as GATHERING,
    ExpertExchange as ExpertExchange,
    expert_groups_reached as expert_groups_reached,
)
from .memory import (
    MemoryColumns as MemoryColumns,
    MemoryInputs as MemoryInputs,
    MemoryLoad as MemoryLoad,
    MemoryOverheads as MemoryOverheads,
    memory_footprint as memory_footprint,
)
from .nodes import (
    crossing_groups as crossing_groups,
    cuts_groups as cuts_groups,
    gpus_of_nodes as gpus_of_nodes,
    most_replicas as most_replicas,
    node_gpus as node_gpus,
    nodes_of_pools as nodes_of_pools,
    pools_fit as pools_fit,
)
from .plan import (
    PlanColumns as PlanColumns,
    default_moe_split as default_moe_split,
    gpus_of_sizes as gpus_of_sizes,
    plan_problems as plan_problems,
    plan_rules as plan_rules,
)
from .sharding import (
    shard_operators as shard_operators,
    stage_layers as stage_layers,
    stage_share as stage_share,
)
from .weights import (
    weight_columns as weight_columns,
)
