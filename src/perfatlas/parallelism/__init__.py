"""Plans, the operators of one rank under a plan, and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.parallelism.advice import (
        NO_SINGLE_CHANGE as NO_SINGLE_CHANGE,
        shortfall_advice as shortfall_advice,
    )
    from perfatlas.parallelism.cache import (
        cache_borders as cache_borders,
        has_compressed_keys as has_compressed_keys,
        kv_bytes_per_sequence as kv_bytes_per_sequence,
        paged_bytes_per_sequence as paged_bytes_per_sequence,
    )
    from perfatlas.parallelism.exchange import (
        GATHERING as GATHERING,
        ExpertExchange as ExpertExchange,
        expert_groups_reached as expert_groups_reached,
    )
    from perfatlas.parallelism.memory import (
        MemoryColumns as MemoryColumns,
        MemoryInputs as MemoryInputs,
        MemoryLoad as MemoryLoad,
        MemoryOverheads as MemoryOverheads,
        memory_footprint as memory_footprint,
    )
    from perfatlas.parallelism.nodes import (
        crossing_groups as crossing_groups,
        cuts_groups as cuts_groups,
        gpus_of_nodes as gpus_of_nodes,
        most_replicas as most_replicas,
        node_gpus as node_gpus,
        nodes_of_pools as nodes_of_pools,
        pools_fit as pools_fit,
    )
    from perfatlas.parallelism.plan import (
        WITHIN_CONTEXT as WITHIN_CONTEXT,
        PlanColumns as PlanColumns,
        default_moe_split as default_moe_split,
        gpus_of_sizes as gpus_of_sizes,
        plan_problems as plan_problems,
        plan_rules as plan_rules,
    )
    from perfatlas.parallelism.sharding import (
        shard_operators as shard_operators,
        stage_layers as stage_layers,
        stage_share as stage_share,
    )
    from perfatlas.parallelism.tables import hold_tables as hold_tables
    from perfatlas.parallelism.weights import weight_columns as weight_columns
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
