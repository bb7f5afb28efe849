"""Networks: a description -> architecture -> operators, parameters and cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.architecture import (
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
    from perfatlas.networks.cache_layout import cache_layouts as cache_layouts
    from perfatlas.networks.catalog import (
        Model as Model,
        model_config as model_config,
        model_names as model_names,
        resolve_model as resolve_model,
    )
    from perfatlas.networks.changes import (
        with_redundant_experts as with_redundant_experts,
        without_windows as without_windows,
    )
    from perfatlas.networks.dimensions import (
        MODEL_FIELDS as MODEL_FIELDS,
        read_dimension as read_dimension,
        unknown_dimension as unknown_dimension,
    )
    from perfatlas.networks.drafting import (
        draft_operators as draft_operators,
        with_drafter as with_drafter,
    )
    from perfatlas.networks.elementwise import stream_bytes as stream_bytes
    from perfatlas.networks.emission import ModelFormats as ModelFormats, StepTokens as StepTokens
    from perfatlas.networks.key_index import INDEX_FORMAT as INDEX_FORMAT
    from perfatlas.networks.parameters import (
        ParameterCounts as ParameterCounts,
        parameter_counts as parameter_counts,
    )
    from perfatlas.networks.phases import step_operators as step_operators
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
