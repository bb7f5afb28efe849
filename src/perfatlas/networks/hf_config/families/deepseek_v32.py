"""DeepSeek-V3.2 and GLM-5: latent attention over the keys selected by an indexer.

From GLM-5.2 on most layers attend to the keys that the indexer of an earlier layer selected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config import decoder
from perfatlas.networks.hf_config.blocks import mla
from perfatlas.networks.layers import MlaAttention, SparseIndexer

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("deepseek_v32", "glm_moe_dsa")


def read(fields: Fields) -> Architecture:
    """Return a DeepSeek sparse-attention model: keys selected in every layer."""
    return decoder.read(fields, FAMILY)


def _mixers(fields: Fields, depth: int) -> tuple[MlaAttention, ...]:
    if fields.integer("q_lora_rank", default=0, minimum=0) == 0:
        raise fields.invalid("q_lora_rank", "the indexer needs the latent query; must be positive")
    indexer = SparseIndexer(
        num_heads=fields.integer("index_n_heads"),
        head_dim=fields.integer("index_head_dim"),
        top_k=fields.integer("index_topk"),
    )
    full = replace(mla(fields), indexer=indexer)
    reuses = replace(full, indexer=replace(indexer, shared=True))
    return tuple(full if own else reuses for own in _own_indexers(fields, depth))


def _own_indexers(fields: Fields, depth: int) -> tuple[bool, ...]:
    """Return which layers have an indexer of their own.

    Source: `index_topk_freq` of vllm/model_executor/models/deepseek_v2.py and `indexer_types` of
        the config class of transformers, which derives them from the frequency and the pattern.
    """
    name, kinds = "indexer_types", fields.texts("indexer_types")
    if not kinds and fields.text("index_topk_pattern"):
        name = "index_topk_pattern"
        kinds = tuple({"F": "full", "S": "shared"}.get(k, k) for k in fields.text(name))
    if kinds:
        if len(kinds) != depth or not set(kinds) <= {"full", "shared"}:
            raise fields.invalid(name, f"must be {depth} entries of 'full' or 'shared'")
        full = tuple(kind == "full" for kind in kinds)
    else:
        name, period = "index_topk_freq", fields.integer("index_topk_freq", default=1)
        offset = fields.integer("index_skip_topk_offset", default=2, minimum=1)
        full = tuple(i < offset or (i - offset + 1) % period == 0 for i in range(depth))
    if not full[0]:
        raise fields.invalid(name, "the first layer has no selected keys to reuse")
    return full


FAMILY: Final = decoder.Family(fixed={"router_bias": True}, mixers=_mixers)
