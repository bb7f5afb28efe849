"""config.json -> Architecture: its family, formats and vision encoder.

Source: vision encoders: transformers, models/qwen3_vl, gemma3, siglip and kimi_k25; limits of
    pixels, which config.json does not state: data/image_sizes.toml.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.networks.architecture import Architecture
from perfatlas.networks.hf_config import decoder, encoders
from perfatlas.networks.hf_config.blocks import dense, gqa
from perfatlas.networks.hf_config.encoders import ENCODERS
from perfatlas.networks.hf_config.families import families, family_reader
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.quantization import checkpoint_formats
from perfatlas.networks.language_model import LayerGroup
from perfatlas.networks.readers import Reader
from perfatlas.networks.vision_encoder import Projector, Resizing, VisionEncoder
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.networks.contract import Network
    from perfatlas.networks.hf_config.decoder import Family


COLORS: Final = 3


_LAYERS: Final = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    "patch_size",
)


MERGED: Final = 2  # patches per side of a token that a config without this size means


MAX_CONFIG_BYTES: Final = 16_000_000
# keys under which multimodal configs store the language model
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# families whose layers differ individually by design
_UNEVEN = ("nemotron-nas",)


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
    (row,) = (row for row in rows if model_type in row["model_types"])
    return {name: limit for name, limit in row.items() if isinstance(limit, int)}


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


def read_config(config: Mapping[str, object], origin: str) -> Architecture:
    """Return the architecture of a Hugging Face config.json.

    No code from the config is executed: `auto_map` is ignored.

    Args:
        origin: File or catalog id, for messages.

    Raises:
        UnsupportedError: The model_type is not supported.
        InvalidSpecError: A field is missing, has the wrong type or contradicts another.

    Example:
        >>> from perfatlas.networks.hf_config import read_config
        >>> config = {
        ...     "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        ...     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "vocab_size": 128256,
        ... }
        >>> read_config(config, "example").num_layers
        32
    """
    outer = Fields(values=config, origin=origin)
    fields, wrapped = _text_part(outer)
    model_type = fields.text("model_type")
    if not model_type:
        raise outer.invalid("model_type", "a string such as 'llama' is required")
    if model_type not in _UNEVEN:
        name = fields.has("per_layer_config", "block_configs")
        if name is not None and fields.values[name]:
            raise fields.unsupported(name, "layers that differ individually are not supported")
    if model_type in families():
        architecture = family_reader(model_type)(fields)
    else:
        architecture = decoder.read(fields, _family(fields), known=model_type in FAMILIES)
    encoder, undescribed = read_encoder(outer, architecture.hidden_size)
    checkpoint, format_notes = checkpoint_formats(outer, fields, architecture)
    notes = wrapped if encoder is None else ()
    if outer.has("auto_map"):
        notes = (*notes, "auto_map refers to Python code, which was ignored")
    return replace(
        architecture,
        encoder=encoder,
        undescribed=undescribed,
        checkpoint=checkpoint,
        notes=(*notes, *architecture.notes, *format_notes),
    )


def _family(fields: Fields) -> Family:
    """Return what is known of the family of a decoder that has no reader of its own."""
    model_type = fields.text("model_type")
    if model_type not in FAMILIES and model_type in decoder.class_defaults():
        shown = model_type[:60]
        raise UnsupportedError(
            f"{fields.origin}: model_type {shown!r} is not supported: its layers have operators"
            f" that are not modeled{did_you_mean(shown, (*FAMILIES, *families()))}"
        )
    return FAMILIES.get(model_type, decoder.Family())


def _text_part(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Return the fields of the language model, and a note if it was wrapped."""
    wrapper = outer.text("model_type", default="multimodal")
    note = f"text part of the multimodal model {wrapper[:40]!r}; its encoders are not counted"
    name = outer.has(*_TEXT_PARTS)
    text = outer.child(name) if name is not None else None
    if text is None:
        return outer, (note,) if outer.has("vision_config", "audio_config") else ()
    values = dict(text.values)
    values.setdefault("model_type", wrapper)
    if outer.has("tie_word_embeddings"):
        values["tie_word_embeddings"] = outer.values["tie_word_embeddings"]
    return Fields(values=values, origin=outer.origin), (note,)


def is_encoder(text: str) -> bool:
    """Return whether a config.json, or that of a folder, is one of a text encoder.

    What cannot be read is none.
    """
    try:
        path = Path(text).expanduser()
        path = path / "config.json" if path.is_dir() else path
        read = path.stat()
        return path.is_file() and _model_type(path, read.st_mtime_ns, read.st_size) in ENCODERS
    except (OSError, ValueError, RuntimeError, InvalidSpecError):
        return False


@lru_cache(maxsize=256)
def _model_type(path: Path, _changed_ns: int, _bytes: int) -> str:
    """Return the model_type of a config.json as it was at a time."""
    return str(_read_json(path).get("model_type"))


def _read_file(path: Path) -> Network:
    """Return the network of a config.json, with the formats of a file beside it."""
    config = _read_json(path)
    fields = Fields(values=config, origin=str(path))
    if (encoder := ENCODERS.get(fields.text("model_type"))) is not None:
        return encoders.read_encoder(fields, encoder)
    sidecar = path.with_name("hf_quant_config.json")
    if config.get("quantization_config") is None and sidecar.is_file():
        config["quantization_config"] = _read_json(sidecar)
    return read_config(config, str(path))


def _read_json(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        content = file.read(MAX_CONFIG_BYTES + 1)
    if len(content) > MAX_CONFIG_BYTES:
        raise InvalidSpecError(f"{path}: larger than the limit of {MAX_CONFIG_BYTES} bytes")
    try:
        config = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidSpecError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(config, dict):
        raise InvalidSpecError(f"{path}: expected a JSON object, not a {type(config).__name__}")
    return config


READER: Final = Reader(
    name="hf_config", suffixes=(".json",), read=_read_file, in_folders="config.json"
)
