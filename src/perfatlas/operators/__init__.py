"""Operators as columns of shapes, with their FLOP and bytes; independent of devices."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.operators.attention import (
        ATTENTION_BACKWARD, STATISTICS_BYTES, Attention, KeyReader, KeyScores, KeySelection,
        LatentAttention, visible_pairs,
    )
    from perfatlas.operators.copies import take_candidates, with_fields
    from perfatlas.operators.expert_load import (
        UNIFORM, MeasuredLoads, active_share, busiest_rank, concentration, load_skew,
    )
    from perfatlas.operators.libraries import (
        SECTOR_BYTES, LibraryKernel, library_kernel,
    )
    from perfatlas.operators.operator import (
        ACTIVATION_BYTES, WORK_CLASSES, Backward, Collective, Group, Operator, Ranks, Saving, Shard,
        WeightMatrix, WorkClass,
    )
    from perfatlas.operators.products import COPIES, LOGIT_BYTES, MASK_BYTES, Gemm, GroupedGemm
    from perfatlas.operators.recurrent import (
        DELTA_CHUNK, Convolution, Scan, delta_rule_flop, delta_rule_width,
    )
    from perfatlas.operators.streaming import (
        EMBEDDING, EMBEDDING_BAG, INDEX_BYTES, QUANTIZE, Streaming,
    )
    from perfatlas.operators.unique import unique_rows
    from perfatlas.operators.work import (
        BOUND_COMPUTE, BOUND_HOST, BOUND_LATENCY, BOUND_MEMORY, BOUND_NAMES, BOUND_NETWORK,
        BOUND_PADDING, NAMED_BOUNDS, FloatArray, IntArray, Phase, Work,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
