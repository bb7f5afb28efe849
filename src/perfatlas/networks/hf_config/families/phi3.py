"""Phi-3, Phi-3.5 (dense) and Phi-4."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("phi3",)


def read(fields: Fields) -> Architecture:
    """Return a Phi-3: a Llama with fused projections and an optional window."""
    attention = replace(gqa(fields), window=fields.window())
    return assemble(fields, group_layers([(attention, dense(fields))] * fields.num_layers()))
