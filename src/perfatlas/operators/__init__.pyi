from .attention import (
    ATTENTION_BACKWARD as ATTENTION_BACKWARD,
    Attention as Attention,
    KeyScores as KeyScores,
    KeySelection as KeySelection,
    LatentAttention as LatentAttention,
    visible_pairs as visible_pairs,
)
from .bounds import (
    BOUND_COMPUTE as BOUND_COMPUTE,
    BOUND_LATENCY as BOUND_LATENCY,
    BOUND_MEMORY as BOUND_MEMORY,
    BOUND_NAMES as BOUND_NAMES,
    BOUND_NETWORK as BOUND_NETWORK,
    BOUND_PADDING as BOUND_PADDING,
    NAMED_BOUNDS as NAMED_BOUNDS,
)
from .columns import (
    Collective as Collective,
    Convolution as Convolution,
    Gemm as Gemm,
    GroupedGemm as GroupedGemm,
    Operator as Operator,
    Scan as Scan,
    Shard as Shard,
    Streaming as Streaming,
)
from .copies import with_fields as with_fields
from .expert_load import (
    UNIFORM as UNIFORM,
    load_skew as load_skew,
)
from .phases import Phase as Phase
from .rank_load import (
    busiest_rank as busiest_rank,
)
from .recurrences import (
    DELTA_CHUNK as DELTA_CHUNK,
    delta_rule_flop as delta_rule_flop,
    delta_rule_width as delta_rule_width,
)
from .unique import unique_rows as unique_rows
from .work import (
    FloatArray as FloatArray,
    IntArray as IntArray,
    Work as Work,
)
