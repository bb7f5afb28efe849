"""MiMo-7B: Qwen2 with a multi-token-prediction layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.networks.hf_config.blocks import assemble, dense, gqa, group_layers

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("mimo",)


def read(fields: Fields) -> Architecture:
    """Return a MiMo-7B.

    Source: modeling_mimo.py of XiaomiMiMo/MiMo-7B-Base, whose layers are those of Qwen2.
    """
    if fields.boolean("use_sliding_window", default=False):
        raise fields.unsupported("use_sliding_window", "windowed layers are not supported")
    bias = fields.boolean("attention_bias", default=True)
    attention = replace(gqa(fields), qkv_bias=bias)
    return assemble(
        fields,
        group_layers([(attention, dense(fields))] * fields.num_layers()),
        mtp_layers=fields.integer("num_nextn_predict_layers", default=0, minimum=0, maximum=64),
    )
