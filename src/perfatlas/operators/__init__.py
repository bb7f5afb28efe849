"""What runs: columns of operator shapes with their FLOP and bytes; knows nothing of devices."""

from __future__ import annotations

from perfatlas.operators.attention import Attention, KeyScores, LatentAttention, visible_pairs
from perfatlas.operators.bounds import (
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    BOUND_NAMES,
    BOUND_NETWORK,
)
from perfatlas.operators.columns import (
    Collective,
    Convolution,
    Gemm,
    GroupedGemm,
    Operator,
    Phase,
    Scan,
    Shard,
    Streaming,
)
from perfatlas.operators.recurrences import DELTA_CHUNK, delta_rule_flop, delta_rule_width
from perfatlas.operators.work import FloatArray, IntArray

__all__ = [
    "BOUND_COMPUTE",
    "BOUND_LATENCY",
    "BOUND_MEMORY",
    "BOUND_NAMES",
    "BOUND_NETWORK",
    "DELTA_CHUNK",
    "Attention",
    "Collective",
    "Convolution",
    "FloatArray",
    "Gemm",
    "GroupedGemm",
    "IntArray",
    "KeyScores",
    "LatentAttention",
    "Operator",
    "Phase",
    "Scan",
    "Shard",
    "Streaming",
    "delta_rule_flop",
    "delta_rule_width",
    "visible_pairs",
]
