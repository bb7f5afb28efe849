"""Operators as columns of shapes, with their FLOP and bytes; independent of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.operators.attention import (
        ATTENTION_BACKWARD as ATTENTION_BACKWARD,
        Attention as Attention,
        KeyScores as KeyScores,
        KeySelection as KeySelection,
        LatentAttention as LatentAttention,
        visible_pairs as visible_pairs,
    )
    from perfatlas.operators.bounds import (
        BOUND_COMPUTE as BOUND_COMPUTE,
        BOUND_LATENCY as BOUND_LATENCY,
        BOUND_MEMORY as BOUND_MEMORY,
        BOUND_NAMES as BOUND_NAMES,
        BOUND_NETWORK as BOUND_NETWORK,
        BOUND_PADDING as BOUND_PADDING,
        NAMED_BOUNDS as NAMED_BOUNDS,
    )
    from perfatlas.operators.columns import (
        Collective as Collective,
        Convolution as Convolution,
        Gemm as Gemm,
        GroupedGemm as GroupedGemm,
        Operator as Operator,
        Scan as Scan,
        Shard as Shard,
        Streaming as Streaming,
    )
    from perfatlas.operators.copies import (
        take_candidates as take_candidates,
        with_fields as with_fields,
    )
    from perfatlas.operators.expert_load import UNIFORM as UNIFORM, load_skew as load_skew
    from perfatlas.operators.phases import Phase as Phase
    from perfatlas.operators.rank_load import busiest_rank as busiest_rank
    from perfatlas.operators.recurrences import (
        DELTA_CHUNK as DELTA_CHUNK,
        delta_rule_flop as delta_rule_flop,
        delta_rule_width as delta_rule_width,
    )
    from perfatlas.operators.unique import unique_rows as unique_rows
    from perfatlas.operators.work import (
        FloatArray as FloatArray,
        IntArray as IntArray,
        Work as Work,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
