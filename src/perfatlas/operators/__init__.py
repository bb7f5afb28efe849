"""What runs: columns of operator shapes with their FLOP and bytes; knows nothing of devices."""

from __future__ import annotations

from perfatlas.operators.attention import (
    Attention,
    KeyScores,
    KeySelection,
    LatentAttention,
    visible_pairs,
)
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
from perfatlas.operators.expert_load import UNIFORM, load_skew
from perfatlas.operators.recurrences import DELTA_CHUNK, delta_rule_flop, delta_rule_width
from perfatlas.operators.work import FloatArray, IntArray

__all__ = [
    "BOUND_COMPUTE",
    "BOUND_LATENCY",
    "BOUND_MEMORY",
    "BOUND_NAMES",
    "BOUND_NETWORK",
    "DELTA_CHUNK",
    "UNIFORM",
    "Attention",
    "Collective",
    "Convolution",
    "FloatArray",
    "Gemm",
    "GroupedGemm",
    "IntArray",
    "KeyScores",
    "KeySelection",
    "LatentAttention",
    "Operator",
    "Phase",
    "Scan",
    "Shard",
    "Streaming",
    "delta_rule_flop",
    "delta_rule_width",
    "load_skew",
    "visible_pairs",
]
