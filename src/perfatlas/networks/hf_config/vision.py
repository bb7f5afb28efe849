"""Vision encoders from the `vision_config` of a config.json, by the model_type around it.

Source: transformers, models/qwen3_vl, gemma3, siglip and kimi_k25; limits of pixels, which
    config.json does not state: data/image_sizes.toml.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.networks.architecture import Architecture
from perfatlas.networks.hf_config.blocks import dense, gqa
from perfatlas.networks.language_model import LayerGroup
from perfatlas.networks.vision_encoder import Projector, Resizing, VisionEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks.hf_config.fields import Fields

COLORS: Final = 3
_LAYERS: Final = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "patch_size",
)
MERGED: Final = 2  # patches per side of a token that a config without this size means


def read_encoder(outer: Fields, hidden_size: int) -> tuple[VisionEncoder | None, str]:
    """Return the vision encoder of a multi-modal model, None if none is stated or described.

    Also what its description lacks, a clause.
    """
    vision = outer.child("vision_config")
    family = _FAMILIES.get(outer.text("model_type"))
    if vision is None or family is None:
        return None, ""
    vision = vision.renamed(family.names)
    missing = [vision.spelled(name) for name in family.required if not vision.has(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        return None, f"{vision.origin}: {', '.join(missing)} {verb} missing"
    return family.read(outer, vision, hidden_size), ""


@cache
def _limits(model_type: str) -> dict[str, int]:
    """Return the limits of the image processor of a family."""
    rows = shipped_table("data/image_sizes.toml")["processor"]
    (found,) = (row for row in rows if model_type in row["model_types"])
    return {name: limit for name, limit in found.items() if isinstance(limit, int)}


def _qwen(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return the encoder of Qwen3-VL and Qwen3.5: a merger, and one per DeepStack layer."""
    layers = _transformer(vision, vision.integer("num_position_embeddings"))
    patch, merge = vision.integer("patch_size"), vision.integer("spatial_merge_size")
    merged = layers.hidden_size * merge**2
    widths = (merged, merged, _width_of_text(vision, "out_hidden_size", hidden_size))
    last = layers.num_layers - 1
    earlier = len(vision.integers("deepstack_visual_indexes", maximum=last))
    projectors = [Projector(widths=widths)]  # its norm is the final one
    if earlier:
        projectors.append(Projector(widths=widths, norm_parameters=2 * merged, copies=earlier))
    frames = vision.integer("temporal_patch_size", default=2)
    limits = _limits(outer.text("model_type"))
    return VisionEncoder(
        transformer=layers,
        patch_elements=vision.integer("in_channels", default=COLORS) * frames * patch**2,
        patches_per_token=merge**2,
        resizing=Resizing(
            side=patch * merge, min_pixels=limits["min_pixels"], max_pixels=limits["max_pixels"]
        ),
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
        resizing=Resizing(side=side // pooled, fixed_side=side),
        projectors=(Projector(widths=widths, norm_parameters=widths[0], bias=False),),
        rotary=False,
    )


def _kimi(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return MoonViT, whose patches of 2 x 2 are merged before two products."""
    positions = [vision.integer(f"init_pos_emb_{name}", default=64) for name in ("height", "width")]
    layers, patch = _transformer(vision, math.prod(positions)), vision.integer("patch_size")
    merge = _merged_side(vision)
    merged = layers.hidden_size * merge**2
    widths = (merged, merged, _width_of_text(vision, "text_hidden_size", hidden_size))
    limits = _limits(outer.text("model_type"))
    return VisionEncoder(
        transformer=layers,
        patch_elements=COLORS * patch**2,
        patches_per_token=merge**2,
        resizing=Resizing(
            side=patch * merge,
            patch=patch,
            max_pixels=limits["max_patches"] * patch**2,
            max_side=limits["max_side_patches"] * patch,
            pads_sides=True,
        ),
        projectors=(Projector(widths=widths, norm_parameters=2 * layers.hidden_size),),
    )


def _merged_side(vision: Fields) -> int:
    """Return the patches per side of a token."""
    name = "merge_kernel_size"
    if not vision.has(name):
        return MERGED
    sides = vision.integers(name, maximum=64)
    if len(sides) != 2 or len({*sides}) > 1 or 0 in sides:
        raise vision.invalid(name, "expected two equal positive integers")
    return sides[0]


def _width_of_text(vision: Fields, name: str, hidden_size: int) -> int:
    """Return the width of the tokens of an image, which is that of tokens of text."""
    if vision.integer(name, default=hidden_size) != hidden_size:
        raise vision.invalid(name, f"must be hidden_size = {hidden_size} of the language model")
    return hidden_size


def _transformer(vision: Fields, position_rows: int) -> Architecture:
    """Return the layers of an encoder: layer norms, attention and feed-forward with biases."""
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


class _Family(NamedTuple):
    """How the encoders of a family are read."""

    read: Callable[[Fields, Fields, int], VisionEncoder]
    required: tuple[str, ...] = _LAYERS  # Fields without a default
    names: Mapping[str, str] = {}  # Names used here by the spelling of the family


_QWEN: Final = _Family(
    _qwen,
    (*_LAYERS, "num_position_embeddings", "spatial_merge_size"),
    {"depth": "num_hidden_layers", "num_heads": "num_attention_heads"},
)
_FAMILIES: Final[Mapping[str, _Family]] = {
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _QWEN),
    "gemma3": _Family(_gemma3, (*_LAYERS, "image_size")),
    "kimi_k25": _Family(_kimi, names={f"vt_{name}": name for name in _LAYERS[:-1]}),
}
