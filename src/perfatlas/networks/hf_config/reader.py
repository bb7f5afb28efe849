"""config.json -> Architecture: selects the family, unwraps multimodal models, reads formats."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config.families import families, family_reader
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.quantization import checkpoint_formats
from perfatlas.networks.hf_config.vision import read_encoder
from perfatlas.networks.readers import Reader
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfatlas.networks.architecture import Architecture


MAX_CONFIG_BYTES: Final = 16_000_000
# keys under which multimodal configs store the language model
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# families whose layers differ individually by design
_UNEVEN = ("nemotron-nas",)


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
    if model_type not in families():
        raise _unknown_family(model_type, origin)
    if model_type not in _UNEVEN:
        _refuse_uneven_layers(fields)
    architecture = family_reader(model_type)(fields)
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


def _unknown_family(model_type: str, origin: str) -> UnsupportedError:
    shown = model_type[:60]
    nearest = did_you_mean(shown, families())
    file = shown.replace("-", "_")
    if not (file.isascii() and file.isidentifier()):
        file = "<model_type>"
    return UnsupportedError(
        f"{origin}: model_type {shown!r} is not supported{nearest}; to add it, write"
        f" src/perfatlas/networks/hf_config/families/{file}.py with MODEL_TYPES and `read`"
    )


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


def _refuse_uneven_layers(fields: Fields) -> None:
    name = fields.has("per_layer_config", "block_configs")
    if name is not None and fields.values[name]:
        raise fields.unsupported(name, "layers that differ individually are not supported")


def _read_file(path: Path) -> Architecture:
    """Return the architecture of a config.json, with the formats of a file beside it."""
    config = _read_json(path)
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
