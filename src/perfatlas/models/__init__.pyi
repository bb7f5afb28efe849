from .architecture import (
    Architecture as Architecture,
    CheckpointFormats as CheckpointFormats,
    CompressedAttention as CompressedAttention,
    DenseFfn as DenseFfn,
    Ffn as Ffn,
    GatedDeltaNet as GatedDeltaNet,
    GqaAttention as GqaAttention,
    LayerGroup as LayerGroup,
    Mamba1 as Mamba1,
    Mamba2 as Mamba2,
    Mixer as Mixer,
    MlaAttention as MlaAttention,
    MoeFfn as MoeFfn,
    SparseIndexer as SparseIndexer,
)
from .cache_layout import (
    cache_layouts as cache_layouts,
)
from .catalog import (
    Model as Model,
    model_config as model_config,
    model_names as model_names,
    resolve_model as resolve_model,
)
from .changes import (
    with_redundant_experts as with_redundant_experts,
    without_windows as without_windows,
)
from .dimensions import (
    MODEL_FIELDS as MODEL_FIELDS,
    read_dimension as read_dimension,
    unknown_dimension as unknown_dimension,
)
from .drafting import (
    draft_operators as draft_operators,
    with_drafter as with_drafter,
)
from .elementwise import (
    stream_bytes as stream_bytes,
)
from .emission import (
    ModelFormats as ModelFormats,
    StepTokens as StepTokens,
)
from .key_index import (
    INDEX_FORMAT as INDEX_FORMAT,
)
from .parameters import (
    ParameterCounts as ParameterCounts,
    parameter_counts as parameter_counts,
)
from .phases import (
    step_operators as step_operators,
)
from .reader import (
    read_config as read_config,
)
