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
from perfatlas.models.catalog import Model, model_names, resolve_model
from perfatlas.models.reader import read_config

__all__ = [
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
    "MoeFfn",
    "SparseIndexer",
    "model_names",
    "read_config",
    "resolve_model",
]
