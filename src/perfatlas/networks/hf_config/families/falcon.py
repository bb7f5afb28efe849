"""Falcon 1 and 2: parallel or sequential attention and feed-forward, one to all key-value heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import decoder

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("falcon", "RefinedWeb", "RefinedWebModel")


def read(fields: Fields) -> Architecture:
    """Return a Falcon; the number of norms follows from its decoder architecture.

    Source: Almazrouei et al. 2023 (arXiv 2311.16867); transformers, `FalconDecoderLayer`.
    """
    new = fields.boolean("new_decoder_architecture", default=False)
    one_head = not new and fields.boolean("multi_query", default=True)
    stated: dict[str, object] = {"multi_query": False}
    if not new:
        stated["num_key_value_heads"] = 1 if one_head else None
    norms = 2
    if new or fields.boolean("parallel_attn", default=True):
        norms = fields.integer("num_ln_in_parallel_attn", default=2 if new else 1, maximum=2)
    family = decoder.Family(
        defaults={"tie_word_embeddings": True},
        fixed=stated,
        gated=False,
        ffn_multiple=4,
        norms=norms,
        norm_bias=True,
    )
    return decoder.read(fields, family)
