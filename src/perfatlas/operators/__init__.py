"""Operators as columns of shapes, with their FLOP and bytes; independent of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.operators.attention import (
        ATTENTION_BACKWARD as ATTENTION_BACKWARD,
        STATISTICS_BYTES as STATISTICS_BYTES,
        Attention as Attention,
        KeyReader as KeyReader,
        KeyScores as KeyScores,
        KeySelection as KeySelection,
        LatentAttention as LatentAttention,
        visible_pairs as visible_pairs,
    )
    from perfatlas.operators.copies import (
        take_candidates as take_candidates,
        with_fields as with_fields,
    )
    from perfatlas.operators.expert_load import (
        UNIFORM as UNIFORM,
        busiest_rank as busiest_rank,
        load_skew as load_skew,
    )
    from perfatlas.operators.operator import (
        ACTIVATION_BYTES as ACTIVATION_BYTES,
        WORK_CLASSES as WORK_CLASSES,
        Backward as Backward,
        Collective as Collective,
        Group as Group,
        Operator as Operator,
        Ranks as Ranks,
        Saving as Saving,
        Shard as Shard,
        WeightMatrix as WeightMatrix,
        WorkClass as WorkClass,
    )
    from perfatlas.operators.products import (
        COPIES as COPIES,
        LOGIT_BYTES as LOGIT_BYTES,
        MASK_BYTES as MASK_BYTES,
        Gemm as Gemm,
        GroupedGemm as GroupedGemm,
    )
    from perfatlas.operators.recurrent import (
        DELTA_CHUNK as DELTA_CHUNK,
        Convolution as Convolution,
        Scan as Scan,
        delta_rule_flop as delta_rule_flop,
        delta_rule_width as delta_rule_width,
    )
    from perfatlas.operators.streaming import (
        EMBEDDING as EMBEDDING,
        EMBEDDING_BAG as EMBEDDING_BAG,
        INDEX_BYTES as INDEX_BYTES,
        QUANTIZE as QUANTIZE,
        Streaming as Streaming,
    )
    from perfatlas.operators.unique import unique_rows as unique_rows
    from perfatlas.operators.work import (
        BOUND_COMPUTE as BOUND_COMPUTE,
        BOUND_LATENCY as BOUND_LATENCY,
        BOUND_MEMORY as BOUND_MEMORY,
        BOUND_NAMES as BOUND_NAMES,
        BOUND_NETWORK as BOUND_NETWORK,
        BOUND_PADDING as BOUND_PADDING,
        NAMED_BOUNDS as NAMED_BOUNDS,
        FloatArray as FloatArray,
        IntArray as IntArray,
        Phase as Phase,
        Work as Work,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
