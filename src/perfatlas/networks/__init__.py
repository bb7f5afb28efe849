"""Networks: a file -> a network of operators, parameters, cache and activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture as Architecture
    from perfatlas.networks.catalog import (
        Model as Model,
        catalog_aliases as catalog_aliases,
        default_osl as default_osl,
        graph_names as graph_names,
        is_graph as is_graph,
        model_config as model_config,
        model_names as model_names,
        resolve_model as resolve_model,
    )
    from perfatlas.networks.contract import (
        ENCODER as ENCODER,
        CacheLayout as CacheLayout,
        CheckpointFormats as CheckpointFormats,
        DividedSize as DividedSize,
        LiveElements as LiveElements,
        Network as Network,
        ParameterCounts as ParameterCounts,
        RoutedExperts as RoutedExperts,
        Segment as Segment,
    )
    from perfatlas.networks.dimensions import (
        MODEL_FIELDS as MODEL_FIELDS,
        read_dimension as read_dimension,
        unknown_dimension as unknown_dimension,
    )
    from perfatlas.networks.elementwise import (
        RowBytes as RowBytes,
        norm_bytes as norm_bytes,
        stream_bytes as stream_bytes,
    )
    from perfatlas.networks.emission import ModelFormats as ModelFormats, StepTokens as StepTokens
    from perfatlas.networks.importing import import_graph as import_graph
    from perfatlas.networks.key_index import INDEX_FORMAT as INDEX_FORMAT
    from perfatlas.networks.language_model import LayerGroup as LayerGroup
    from perfatlas.networks.layers import (
        CompressedAttention as CompressedAttention,
        DenseFfn as DenseFfn,
        Ffn as Ffn,
        GatedDeltaNet as GatedDeltaNet,
        GqaAttention as GqaAttention,
        Mamba1 as Mamba1,
        Mamba2 as Mamba2,
        Mixer as Mixer,
        MlaAttention as MlaAttention,
        MoeFfn as MoeFfn,
        SparseIndexer as SparseIndexer,
    )
    from perfatlas.networks.phases import HEAD_OPERATORS as HEAD_OPERATORS
    from perfatlas.networks.readers import Reader as Reader, register_reader as register_reader
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
