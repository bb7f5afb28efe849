"""config.json -> network: its family, formats and vision encoder."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config import decoder, encoders
from perfatlas.networks.hf_config.encoders import ENCODERS
from perfatlas.networks.hf_config.families import families, family_reader
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.quantization import checkpoint_formats
from perfatlas.networks.hf_config.vision import read_vision
from perfatlas.networks.readers import Reader
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.contract import Network
    from perfatlas.networks.hf_config.decoder import Family


MAX_CONFIG_BYTES: Final = 16_000_000
# Keys of params.json, the config of Mistral's own format
_PARAMS: Final = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "tied_embeddings": "tie_word_embeddings",
}
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
    outer = _typed(Fields(values=config, origin=origin))
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
    encoder, undescribed = read_vision(outer, architecture.hidden_size)
    checkpoint, format_notes = checkpoint_formats(outer, fields, architecture)
    notes = wrapped if encoder is None else ()
    if (remote := outer.child("auto_map")) is not None:
        named = repr_for_error(next(iter(remote.values.values()), ""))
        notes = (*notes, f"auto_map names {named}, Python code that is never run")
    return replace(
        architecture,
        encoder=encoder,
        undescribed=undescribed,
        checkpoint=checkpoint,
        notes=(*notes, *architecture.notes, *format_notes),
    )


def read_network(config: Mapping[str, object], origin: str) -> Network:
    """Return the network of a Hugging Face config.json: a text encoder, or as `read_config`.

    Example:
        >>> from perfatlas.networks.hf_config import read_network
        >>> read_network({"model_type": "bert", "vocab_size": 30522}, "example").item
        'sequence'
    """
    fields = Fields(values=config, origin=origin)
    if (encoder := ENCODERS.get(fields.text("model_type"))) is not None:
        return encoders.read_encoder(fields, encoder)
    return read_config(config, origin)


def _typed(outer: Fields) -> Fields:
    """Return the fields with a model_type, by the class in `architectures` where none is stated.

    A params.json of Mistral, which states neither, is a Mistral.
    """
    if outer.has("model_type"):
        return outer
    if outer.has("dim") and outer.has("n_layers"):
        experts = outer.child("moe")
        values = {**outer.values, **(experts.values if experts else {}), "model_type": "mistral"}
        values = {_PARAMS.get(name, name): value for name, value in values.items()}
        return Fields(values={"sliding_window": None, **values}, origin=outer.origin)
    for name in outer.texts("architectures")[:1]:
        head = _plain(re.split("(?<=[a-z0-9])(?:For|Model|LMHead)", name)[0])
        for model_type in (*families(), *FAMILIES):
            if _plain(model_type) == head:
                return replace(outer, values={**outer.values, "model_type": model_type})
    return outer


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


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
    sidecar = path.with_name("hf_quant_config.json")
    if config.get("quantization_config") is None and sidecar.is_file():
        config["quantization_config"] = _read_json(sidecar)
    return read_network(config, str(path))


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
