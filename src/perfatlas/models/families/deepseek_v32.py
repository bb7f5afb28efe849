"""DeepSeek-V3.2 and GLM-5: latent attention over the keys selected by an indexer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.models.architecture import SparseIndexer
from perfatlas.models.blocks import assemble, choose_ffns, group_layers, mla
from perfatlas.models.families.deepseek_v3 import experts, mtp_layers, sparse_layers

if TYPE_CHECKING:
    from perfatlas.models.architecture import Architecture
    from perfatlas.models.fields import Fields

MODEL_TYPES = ("deepseek_v32", "glm_moe_dsa")

# default (heads, width) of the indexer in the config classes
_INDEXER = {"deepseek_v32": (64, 128), "glm_moe_dsa": (32, 128)}


def read(fields: Fields) -> Architecture:
    """Return a DeepSeek sparse-attention model: an indexer in every layer."""
    depth = fields.num_layers()
    _check_indexers(fields)
    heads, width = _INDEXER[fields.text("model_type")]
    indexer = SparseIndexer(
        num_heads=fields.integer("index_n_heads", default=heads),
        head_dim=fields.integer("index_head_dim", default=width),
        top_k=fields.integer("index_topk", default=2048),
    )
    attention = replace(mla(fields), indexer=indexer)
    ffns = choose_ffns(fields, sparse_layers(fields, depth, first_dense=3), experts(fields))
    return assemble(
        fields,
        group_layers((attention, ffn) for ffn in ffns),
        mtp_layers=mtp_layers(fields, default=0),
    )


def _check_indexers(fields: Fields) -> None:
    shared = "layers that reuse another layer's selected keys are not supported"
    if "shared" in fields.texts("indexer_types"):
        raise fields.unsupported("indexer_types", shared)
    if "S" in fields.text("index_topk_pattern"):
        raise fields.unsupported("index_topk_pattern", shared)
    if fields.integer("index_topk_freq", default=1) > 1:
        raise fields.unsupported("index_topk_freq", shared)
    if fields.integer("q_lora_rank", default=0, minimum=0) == 0:
        raise fields.invalid("q_lora_rank", "the indexer needs the latent query; must be positive")
