"""Vision encoders from the `vision_config` of a config.json, by the model_type around it.

Source: transformers, models/qwen3_vl, gemma3, siglip and kimi_k25; limits of pixels, which
    config.json does not state: preprocessor_config.json of Qwen3-VL and Qwen3.5, image processor of
    Kimi-K2.5.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.architecture import Architecture
from perfatlas.networks.dimensions import MAX_LAYERS
from perfatlas.networks.hf_config.blocks import dense, gqa
from perfatlas.networks.language_model import LayerGroup
from perfatlas.networks.vision_encoder import Projector, Resizing, VisionEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks.hf_config.fields import Fields

COLORS: Final = 3
QWEN_PIXELS: Final = (65_536, 16_777_216)  # shortest_edge and longest_edge
KIMI_PATCHES: Final = 16_384


def read_encoder(outer: Fields, hidden_size: int) -> VisionEncoder | None:
    """Return the vision encoder of a multi-modal model, None if none is stated or described.

    Args:
        outer: The whole config.json.
        hidden_size: Hidden size of the language model.

    Raises:
        InvalidSpecError: A field is missing, invalid or contradicts another.
    """
    vision = outer.child("vision_config")
    reader = _READERS.get(outer.text("model_type"))
    return None if vision is None or reader is None else reader(outer, vision, hidden_size)


def _qwen(_: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return the encoder of Qwen3-VL and Qwen3.5: a merger, and one per DeepStack layer."""
    named = {"num_hidden_layers": "depth", "num_attention_heads": "num_heads"}
    vision = vision.renamed({theirs: ours for ours, theirs in named.items()})
    layers = _transformer(vision, vision.integer("num_position_embeddings"))
    patch, merge = vision.integer("patch_size"), vision.integer("spatial_merge_size")
    merged = layers.hidden_size * merge**2
    widths = (merged, merged, vision.integer("out_hidden_size", default=hidden_size))
    earlier = len(vision.integers("deepstack_visual_indexes", maximum=MAX_LAYERS))
    projectors = [Projector(widths=widths)]  # its norm is the final one
    if earlier:
        projectors.append(Projector(widths=widths, norm_parameters=2 * merged, number=earlier))
    frames = vision.integer("temporal_patch_size", default=2)
    least, most = QWEN_PIXELS
    return VisionEncoder(
        transformer=layers,
        patch_elements=vision.integer("in_channels", default=COLORS) * frames * patch**2,
        patches_per_token=merge**2,
        resizing=Resizing(side=patch * merge, least=least, most=most),
        projectors=tuple(projectors),
    )


def _gemma3(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return SigLIP, whose patches are pooled before one product."""
    patch = vision.integer("patch_size")
    side, tokens = vision.integer("image_size"), outer.integer("mm_tokens_per_image", default=256)
    patches, pooled = side // patch, math.isqrt(tokens)
    if pooled**2 != tokens or patches < pooled or patches % pooled:
        raise outer.invalid("mm_tokens_per_image", f"must divide a square of {patches} patches")
    layers = _transformer(vision, patches**2)
    widths = (layers.hidden_size, hidden_size)
    return VisionEncoder(
        transformer=layers,
        patch_elements=COLORS * patch**2,
        patches_per_token=(patches // pooled) ** 2,
        resizing=Resizing(side=side // pooled, fixed=side),
        projectors=(Projector(widths=widths, norm_parameters=widths[0], bias=False),),
        rotary=False,
    )


def _kimi(_: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return MoonViT, whose patches of 2 x 2 are merged before two products."""
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    vision = vision.renamed({f"vt_{name}": name for name in names})
    positions = [vision.integer(f"init_pos_emb_{name}", default=64) for name in ("height", "width")]
    layers, patch = _transformer(vision, math.prod(positions)), vision.integer("patch_size")
    merge = math.prod(vision.integers("merge_kernel_size", maximum=64)) or 4
    merged = layers.hidden_size * merge
    widths = (merged, merged, vision.integer("text_hidden_size", default=hidden_size))
    return VisionEncoder(
        transformer=layers,
        patch_elements=COLORS * patch**2,
        patches_per_token=merge,
        resizing=Resizing(side=patch * math.isqrt(merge), most=KIMI_PATCHES * patch**2, pads=True),
        projectors=(Projector(widths=widths, norm_parameters=2 * layers.hidden_size),),
    )


def _transformer(vision: Fields, position_rows: int) -> Architecture:
    """Return the layers of an encoder: layer norms, attention and feed-forward with biases.

    Args:
        position_rows: Rows of the table of learned positions.
    """
    attention = replace(gqa(vision), bidirectional=True, qkv_bias=True, output_bias=True)
    ffn = dense(vision, bias=True, gated=False)
    return Architecture(
        model_type="vision",
        hidden_size=vision.integer("hidden_size"),
        vocab_size=0,
        tie_word_embeddings=True,
        layers=(LayerGroup(count=vision.num_layers(), mixer=attention, ffn=ffn),),
        layer_norm_bias=True,
        position_rows=position_rows,
    )


_READERS: Final[Mapping[str, Callable[[Fields, Fields, int], VisionEncoder]]] = {
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen),
    "gemma3": _gemma3,
    "kimi_k25": _kimi,
}
