"""Networks: a file -> a network of operators, parameters, cache and activations."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.catalog import (
        Model, catalog_aliases, default_osl, graph_names, is_graph, model_config, model_names,
        resolve_model,
    )
    from perfatlas.networks.contract import (
        ENCODER, CacheLayout, CheckpointFormats, DividedSize, LiveElements, Network,
        ParameterCounts, RoutedExperts, Segment,
    )
    from perfatlas.networks.dimensions import MODEL_FIELDS, read_dimension, unknown_dimension
    from perfatlas.networks.draft_acceptance import (
        AcceptanceCurve, acceptance_curves, published_curves,
    )
    from perfatlas.networks.elementwise import RowBytes, norm_bytes, stream_bytes
    from perfatlas.networks.emission import ModelFormats, StepTokens
    from perfatlas.networks.importing import import_config, import_graph
    from perfatlas.networks.key_index import INDEX_FORMAT
    from perfatlas.networks.language_model import LayerGroup
    from perfatlas.networks.layers import (
        CompressedAttention, DenseFfn, Ffn, GatedDeltaNet, GqaAttention, LightningAttention, Mamba1,
        Mamba2, Mixer, MlaAttention, MoeFfn, ShortConvolution, SparseIndexer,
    )
    from perfatlas.networks.phases import FUSING, HEAD_OPERATORS
    from perfatlas.networks.readers import Reader, register_reader
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
