"""Vision encoders of multi-modal models by their config: tower, projector and sizes of images.

Source: vision encoders: transformers 5.24.0, models/qwen2_vl, qwen2_5_vl, qwen3_vl, gemma3, siglip,
    clip, pixtral, idefics3, paligemma, internvl, llava, mistral3 and kimi_k25; limits of pixels,
    which config.json does not state: data/image_sizes.toml.
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
CLIP: Final = "clip_vision_model"  # the tower of a config that names none
SIDE: Final = 224  # pixels of an image where a config leaves them out, as in CLIP and SigLIP


_LAYERS: Final = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "patch_size",
)


MERGED: Final = 2  # patches per side of a token that a config without this size means


def read_vision(outer: Fields, hidden_size: int) -> tuple[VisionEncoder | None, str]:
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
    kind = vision.text("model_type", default=CLIP)
    if family.read is _projected and kind not in _TOWERS:
        return None, f"{vision.origin}: model_type {kind[:40]!r} is not described"
    return family.read(outer, vision, hidden_size), ""


@cache
def limits_of(model_type: str) -> dict[str, int]:
    """Return the limits of the image processor of a family; none of one that is not described."""
    rows = shipped_table("data/image_sizes.toml")["processor"]
    found = [row for row in rows if model_type in row["model_types"]]
    return {name: limit for row in found for name, limit in row.items() if isinstance(limit, int)}


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
    limits = limits_of(outer.text("model_type"))
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
        resizing=Resizing(side=side // pooled, fixed_side=vision.integer("image_size")),
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
    limits = limits_of(outer.text("model_type"))
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


class _Tower(NamedTuple):
    """A vision transformer: what its config does not state."""

    class_tokens: int = 0  # Beside the patches of an image
    table: bool = True  # Whether positions are a table; otherwise they are rotated
    gated: bool = False
    bias: bool = True
    qkv_bias: bool = True
    norm_bias: bool = True
    first_norm: bool = False  # Whether the patches are normalized


_SIGLIP: Final = _Tower()
_TOWERS: Final[Mapping[str, _Tower]] = {
    "clip_vision_model": _Tower(class_tokens=1, first_norm=True),
    **dict.fromkeys(
        (
            "siglip_vision_model",
            "siglip2_vision_model",
            "idefics3_vision",
            "idefics3",
            "smolvlm_vision",
        ),
        _SIGLIP,
    ),
    "pixtral": _Tower(
        table=False, gated=True, bias=False, qkv_bias=False, norm_bias=False, first_norm=True
    ),
    "internvl_vision": _Tower(class_tokens=1, qkv_bias=False),
    "intern_vit_6b": _Tower(class_tokens=1),
}


def _tower(vision: Fields, tower: _Tower) -> Architecture:
    """Return the layers of a vision transformer for images of the size that its config states."""
    side = vision.integer("image_size", default=SIDE) // vision.integer("patch_size")
    attention = replace(
        gqa(vision), bidirectional=True, qkv_bias=tower.qkv_bias, output_bias=tower.bias
    )
    return Architecture(
        model_type="vision",
        hidden_size=vision.integer("hidden_size"),
        vocab_size=0,
        tie_word_embeddings=True,
        layers=(
            LayerGroup(
                count=vision.num_layers(),
                mixer=attention,
                ffn=dense(vision, bias=tower.bias, gated=tower.gated),
            ),
        ),
        layer_norm_bias=tower.norm_bias,
        embedding_norm=tower.first_norm,
        position_rows=side**2 + tower.class_tokens if tower.table else 0,
    )


def _projected(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return a tower of `_TOWERS` and the projector of its model, by `_PROJECTORS`.

    Limits: All layers are priced, also the last where its output is not used (LLaVA).
    """
    for name in ("image_size", "patch_size"):  # InternVL states pairs
        if isinstance(vision.values.get(name), list):
            sides = vision.integers(name, maximum=10_000)
            vision = replace(vision, values={**vision.values, name: max(sides, default=0)})
    tower, form = (
        _TOWERS[vision.text("model_type", default=CLIP)],
        _PROJECTORS[outer.text("model_type")],
    )
    layers, patch = _tower(vision, tower), vision.integer("patch_size")
    image, merge = vision.integer("image_size", default=SIDE), form.merge
    for name in form.merge_names:
        merge = outer.integer(name, default=merge)
    width, merged = layers.hidden_size, layers.hidden_size * merge**2
    bias = outer.boolean("multimodal_projector_bias", default=form.bias)
    norm = (1 + tower.norm_bias) * (merged if form.norm_of_merged else width) * form.norm
    inner = outer.integer(*form.inner_names, default=hidden_size) if form.inner_names else 0
    projectors: tuple[Projector, ...]
    if form.merges_first:  # Mistral 3: patches are merged to the width of one
        projectors = (
            Projector(widths=(merged, width), norm_parameters=norm, bias=False),
            Projector(widths=(width, hidden_size, hidden_size), bias=bias),
        )
    elif inner:
        projectors = (
            Projector(widths=(merged, inner, hidden_size), norm_parameters=norm, bias=bias),
        )
    else:
        projectors = (Projector(widths=(merged, hidden_size), norm_parameters=norm, bias=bias),)
    resizing = Resizing(side=patch * merge, fixed_side=image // (patch * merge) * patch * merge)
    if not tower.table:
        resizing = Resizing(
            side=patch * merge,
            patch=patch,
            max_pixels=image**2,
            max_side=image,
            ends_rows=True,
            pads_sides=True,
        )
    return VisionEncoder(
        transformer=layers,
        patch_elements=COLORS * patch**2,
        patches_per_token=merge**2,
        resizing=resizing,
        projectors=projectors,
        rotary=not tower.table,
        tiles=form.tiles,
    )


class _Projection(NamedTuple):
    """How a model projects the patches of its tower."""

    merge: int = 1  # Patches per side of a token
    merge_names: tuple[str, ...] = ()  # Keys that state it
    inner_names: tuple[str, ...] = ()  # Keys of the width between two products; () for one product
    bias: bool = True
    norm: bool = False
    norm_of_merged: bool = False
    merges_first: bool = False
    tiles: str = ""  # How images are divided into tiles, a clause; "" for one tile


_ANY_RESOLUTION: Final = "images are divided into tiles by their aspect ratio, which is not modeled"
_TWO: Final = ("projector_hidden_size", "text_hidden_size")
_PROJECTORS: Final[Mapping[str, _Projection]] = {
    "llava": _Projection(inner_names=_TWO),
    **dict.fromkeys(
        ("llava_next", "llava_onevision"), _Projection(inner_names=_TWO, tiles=_ANY_RESOLUTION)
    ),
    "mistral3": _Projection(
        merge=2, merge_names=("spatial_merge_size",), bias=False, norm=True, merges_first=True
    ),
    **dict.fromkeys(
        ("idefics3", "smolvlm"),
        _Projection(merge=2, merge_names=("scale_factor",), bias=False, tiles=_ANY_RESOLUTION),
    ),
    "internvl": _Projection(
        merge=2, inner_names=_TWO, norm=True, norm_of_merged=True, tiles=_ANY_RESOLUTION
    ),
    "paligemma": _Projection(),
}


def _qwen2(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return the encoder of Qwen2-VL and Qwen2.5-VL, whose layers are mostly windowed.

    Limits: A window of patches is priced as one in which every patch attends to as many.
    """
    gated = vision.has("window_size") is not None
    if not gated:  # Qwen2-VL states the width of its layers as embed_dim
        width = vision.integer("embed_dim", default=1280)
        ratio = vision.integer("mlp_ratio", default=4)
        sizes = {"hidden_size": width, "intermediate_size": width * ratio}
        vision = replace(vision, values={**vision.values, **sizes})
    depth, patch = vision.num_layers(), vision.integer("patch_size")
    attention = replace(gqa(vision), bidirectional=True, qkv_bias=True, output_bias=True)
    side = vision.integer("window_size", default=patch) // patch
    full = len(vision.integers("fullatt_block_indexes", maximum=depth - 1)) if gated else depth
    ffn = dense(vision, bias=True, gated=gated)
    groups = [(full, attention), (depth - full, replace(attention, window=side**2))]
    merge, frames = vision.integer("spatial_merge_size", default=2), 2
    layers = Architecture(
        model_type="vision",
        hidden_size=vision.integer("hidden_size"),
        vocab_size=0,
        tie_word_embeddings=True,
        layers=tuple(LayerGroup(count=n, mixer=mixer, ffn=ffn) for n, mixer in groups if n),
        layer_norm_bias=not gated,
    )
    merged = layers.hidden_size * merge**2
    limits = limits_of(outer.text("model_type"))
    return VisionEncoder(
        transformer=layers,
        patch_elements=COLORS * vision.integer("temporal_patch_size", default=frames) * patch**2,
        patches_per_token=merge**2,
        resizing=Resizing(
            side=patch * merge, min_pixels=limits["min_pixels"], max_pixels=limits["max_pixels"]
        ),
        projectors=(Projector(widths=(merged, merged, hidden_size)),),
    )


def _mllama(outer: Fields, vision: Fields, hidden_size: int) -> VisionEncoder:
    """Return the encoder of Llama 3.2, whose outputs of several layers are joined.

    Source: transformers, `MllamaVisionModel`: gated layers behind plain ones, and positions of
        each of four tiles for each of nine aspect ratios.
    """
    depth = vision.num_layers() + vision.integer("num_global_layers", default=8)
    tiles, ratios = vision.integer("max_num_tiles", default=4), 9
    layers = _tower(
        replace(vision, values={**vision.values, "num_hidden_layers": depth}),
        _Tower(class_tokens=1, qkv_bias=False, first_norm=True),
    )
    rows = layers.position_rows * (1 + ratios * tiles) + 2 * ratios * tiles
    joined = vision.integer("vision_output_dim", default=6 * layers.hidden_size)
    return VisionEncoder(
        transformer=replace(layers, position_rows=rows),
        patch_elements=COLORS * vision.integer("patch_size") ** 2,
        patches_per_token=1,
        resizing=Resizing(
            side=vision.integer("patch_size"), fixed_side=vision.integer("image_size")
        ),
        projectors=(
            Projector(
                widths=(joined, hidden_size),
                bias=outer.boolean("multimodal_projector_bias", default=True),
            ),
        ),
        rotary=False,
        tiles=_ANY_RESOLUTION,
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
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_5_vl"),
        _Family(_qwen2, ("patch_size", "num_hidden_layers", "num_attention_heads"), _QWEN.names),
    ),
    **dict.fromkeys(_PROJECTORS, _Family(_projected)),
    "mllama": _Family(
        _mllama, (*_LAYERS, "image_size"), {"attention_heads": "num_attention_heads"}
    ),
    "kimi_k25": _Family(_kimi, names={f"vt_{name}": name for name in _LAYERS[:-1]}),
}
