"""The denoiser of a pipeline that is a transformer, whose tokens context parallelism divides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.networks.graphs.nodes import PRODUCTS
from perfatlas.networks.graphs.training import STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from perfatlas.networks.graphs.nodes import Node

# A transformer has one convolution per step at most, that of its patches; a U-Net has many.
_OF_IMAGES: Final = ("conv", "depthwise_conv", "pool", "resize")


def sequence_nodes(nodes: Sequence[Node], columns: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the places of a pipeline's nodes whose tokens ranks divide; () of a U-Net.

    Of the denoiser, which runs in each of `steps`, these are attention, products with several rows
    per sequence, and what moves an element per token. Text that image tokens attend to in a
    cross-attention is not divided.

    Source: Ulysses, Jacobs et al. 2023 (arXiv 2309.14509, section 3.1); xdit-project/xDiT,
        xfuser/model_executor/pipelines/pipeline_flux.py: text of a joint attention is divided too.
    Limits: Tokens that do not divide are padded by engines. Equal nodes of an image and its text
        are one, and are divided alike, and so is what moves as many elements of such a text.
    """
    sizes = {
        index: node.values(columns) for index, node in enumerate(nodes) if STEPS in node.count.names
    }
    kinds = {index: nodes[index].kind for index in sizes}
    images = [sizes[index]["count"] for index, kind in kinds.items() if kind in _OF_IMAGES]
    attentions = [sizes[index] for index, kind in kinds.items() if kind == "attention"]
    if not attentions or sum(images) > columns[STEPS]:
        return ()
    tokens = max(attention["q_len"] for attention in attentions)
    texts = {attention["kv_len"] for attention in attentions}
    texts -= {attention["q_len"] for attention in attentions}
    indexes = []
    for index, size in sizes.items():
        rows = size.get("m", 0.0) / attentions[0]["sequences"]
        moved = max(size.get("read", 0.0), size.get("write", 0.0))
        if kinds[index] in PRODUCTS:
            divided = rows > 1.0 and rows not in texts
        else:
            divided = kinds[index] == "attention" or moved >= tokens
        if divided:
            indexes.append(index)
    return tuple(indexes)
