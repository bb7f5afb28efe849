"""Plans, the operators of one rank under a plan, and its memory."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.parallelism.advice import NO_SINGLE_CHANGE, shortfall_advice
    from perfatlas.parallelism.cache import (
        cache_borders, grouped_bytes_per_sequence, has_compressed_keys, has_mixed_layers,
        kv_bytes_per_sequence, paged_bytes_per_sequence, pooled_bytes_per_sequence,
    )
    from perfatlas.parallelism.exchange import GATHERING, ExpertExchange, expert_groups_reached
    from perfatlas.parallelism.memory import (
        MemoryColumns, MemoryInputs, MemoryLoad, MemoryOverheads, memory_footprint,
    )
    from perfatlas.parallelism.nodes import (
        crossing_groups, cuts_groups, gpus_of_nodes, most_replicas, node_gpus, nodes_of_pools,
        pools_fit,
    )
    from perfatlas.parallelism.plan import (
        DEGREES, PlanColumns, default_moe_split, gpus_of_sizes, plan_problems, plan_rules,
    )
    from perfatlas.parallelism.sharding import shard_operators, stage_layers, stage_share
    from perfatlas.parallelism.tables import copied_bytes, hold_tables
    from perfatlas.parallelism.weights import stage_weights_bytes
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
