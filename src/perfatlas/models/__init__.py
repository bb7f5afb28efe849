"""Models: config.json to architecture to operators."""

from __future__ import annotations

from perfatlas.models.architecture import (
    Architecture,
    CheckpointFormats,
    DenseFfn,
    Ffn,
    GatedDeltaNet,
    GqaAttention,
    LayerGroup,
    Mamba1,
    Mamba2,
    Mixer,
    MlaAttention,
    MoeFfn,
    SparseIndexer,
)
from perfatlas.models.cache_layout import cache_layouts
from perfatlas.models.catalog import Model, model_names, resolve_model
from perfatlas.models.drafting import draft_operators, with_drafter
from perfatlas.models.emission import ModelFormats, StepTokens
from perfatlas.models.mixers import INDEX_FORMAT
from perfatlas.models.parameters import ParameterCounts, parameter_counts
from perfatlas.models.phases import step_operators
from perfatlas.models.reader import read_config

__all__ = [
    "INDEX_FORMAT",
    "Architecture",
    "CheckpointFormats",
    "DenseFfn",
    "Ffn",
    "GatedDeltaNet",
    "GqaAttention",
    "LayerGroup",
    "Mamba1",
    "Mamba2",
    "Mixer",
    "MlaAttention",
    "Model",
    "ModelFormats",
    "MoeFfn",
    "ParameterCounts",
    "SparseIndexer",
    "StepTokens",
    "cache_layouts",
    "draft_operators",
    "model_names",
    "parameter_counts",
    "read_config",
    "resolve_model",
    "step_operators",
    "with_drafter",
]
