"""Mistral 7B, Nemo, Small, Ministral: grouped-query attention with an optional window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("mistral", "mistral3", "ministral3")

# MistralConfig defaults to a window of 4096 if the key is absent; null means none
_DEFAULT_WINDOW = 4096


def read(fields: Fields) -> Architecture:
    """Return a Mistral; an explicit null window means full attention."""
    absent = _DEFAULT_WINDOW if fields.text("model_type") == "mistral" else 0
    head_dim = None if fields.text("model_type") == "mistral" else 128
    attention = replace(
        gqa(fields, head_dim=head_dim, kv_heads=8), window=fields.window(absent=absent)
    )
    return assemble(fields, group_layers([(attention, dense(fields))] * fields.num_layers()))
