"""The plan, the operators of one rank under it, and what has to fit into its memory."""

from __future__ import annotations

from perfatlas.parallelism.advice import shortfall_advice
from perfatlas.parallelism.cache import cache_borders, kv_bytes_per_sequence
from perfatlas.parallelism.exchange import ExpertExchange, expert_groups_reached
from perfatlas.parallelism.memory import (
    MemoryColumns,
    MemoryLoad,
    MemoryOverheads,
    MemoryQuestion,
    memory_footprint,
)
from perfatlas.parallelism.plan import PlanColumns, default_moe_split, plan_problems
from perfatlas.parallelism.sharding import shard_operators, stage_share
from perfatlas.parallelism.weights import weight_columns

__all__ = [
    "ExpertExchange",
    "MemoryColumns",
    "MemoryLoad",
    "MemoryOverheads",
    "MemoryQuestion",
    "PlanColumns",
    "cache_borders",
    "default_moe_split",
    "expert_groups_reached",
    "kv_bytes_per_sequence",
    "memory_footprint",
    "plan_problems",
    "shard_operators",
    "shortfall_advice",
    "stage_share",
    "weight_columns",
]
