"""config.json -> network: its family, formats and vision encoder."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.contract import CheckpointFormats
from perfatlas.networks.dimensions import MAX_PARAMETERS
from perfatlas.networks.hf_config import decoder, parts
from perfatlas.networks.hf_config.family_rows import FAMILIES
from perfatlas.networks.hf_config.fields import Fields
from perfatlas.networks.hf_config.keys import FORMATS, META_MODEL, canonical
from perfatlas.networks.readers import Reader
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.contract import Network
    from perfatlas.networks.hf_config.decoder import Family
    from perfatlas.networks.vision_encoder import GraphEncoder, VisionEncoder


MAX_CONFIG_BYTES: Final = 16_000_000
SAME: Final = 1e-3  # Share of the parameters that is no difference
# Keys of params.json, the config of Mistral's own format
_PARAMS: Final = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "hidden_dim": "intermediate_size",
    "tied_embeddings": "tie_word_embeddings",
}
# How the names of classes of decoders end
DECODERS: Final = ("ForCausalLM", "LMHeadModel")
DRAFTER: Final = "Eagle3"  # in the names of classes of drafters
# keys under which multimodal configs store the language model
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# classes of models with encoders that are built without them
_TEXT_ALONE = frozenset(
    ("MllamaForCausalLM", "Llama4ForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")
)
# families whose layers differ individually by design
_UNEVEN = ("nemotron-nas", "gemma4", "gemma4_text", "gemma4_unified_text")


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
    outer, aside = _thinker(_typed(Fields(values=config, origin=origin)))
    if any(DRAFTER in name for name in outer.texts("architectures")[:1]):
        raise outer.unsupported(
            "architectures", "drafts for another model: set model to NAME{drafter=this folder}"
        )
    fields, wrapped = _text_part(outer)
    model_type = fields.text("model_type")
    if not model_type:
        raise outer.invalid("model_type", "a string such as 'llama' is required")
    if model_type not in _UNEVEN:
        name = fields.has("per_layer_config", "block_configs")
        if name is not None and fields.values[name]:
            raise fields.unsupported(name, "layers that differ individually are not supported")
    architecture = _decoder(fields, outer)
    if wrapped:  # the text parts of published checkpoints leave many values out
        named = tuple(text for text in architecture.warnings if text.startswith(decoder.LEFT_OUT))
        others = tuple(text for text in architecture.warnings if text not in named)
        architecture = replace(architecture, warnings=others, notes=(*architecture.notes, *named))
    encoder: VisionEncoder | GraphEncoder | None = None
    undescribed, checkpoint = "", CheckpointFormats()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    alone = not _TEXT_ALONE.isdisjoint(outer.texts("architectures")[:1])
    if outer.has("vision_config") and not alone:
        from perfatlas.networks.hf_config.vision import read_vision

        encoder, undescribed = read_vision(outer, architecture.hidden_size)
        wrapped = () if encoder else wrapped
    if encoder is None and wrapped and not alone:
        counted, why, encoder = parts.count_encoders(outer)
        wrapped = tuple(f"{note}: {why}" if why else note for note in wrapped)
        if encoder:
            audio = outer.has("audio_config")
            wrapped = ("its encoder of audio is counted, but not priced",) if audio else ()
        elif counted:
            undescribed = f"the encoders of {outer.text('model_type')} are counted, but not priced"
            wrapped = (f"{undescribed}: {counted:,} parameters{why and f' ({why})'}",)
            counted += architecture.unpriced_parameters
            architecture = replace(architecture, unpriced_parameters=counted)
    if outer.has(*FORMATS) or fields.has(*FORMATS):
        from perfatlas.networks.hf_config.quantization import checkpoint_formats

        checkpoint, notes, warnings = checkpoint_formats(outer, fields, architecture)
    if (remote := outer.child("auto_map")) is not None:
        code = repr_for_error(next(iter(remote.values.values()), ""))
        notes = (f"auto_map names {code}, Python code that is never run", *notes)
    return replace(
        architecture,
        encoder=encoder,
        undescribed=undescribed,
        checkpoint=checkpoint,
        warnings=(*aside, *wrapped, *architecture.warnings, *warnings),
        notes=(*notes, *architecture.notes),
    )


def read_network(config: Mapping[str, object], origin: str) -> Network:
    """Return the network of a Hugging Face config.json: a text encoder, or as `read_config`.

    Example:
        >>> from perfatlas.networks.hf_config import read_network
        >>> read_network({"model_type": "bert", "vocab_size": 30522}, "example").item
        'sequence'
    """
    from perfatlas.networks.hf_config.encoders import ENCODERS, read_encoder

    fields = Fields(values=config, origin=origin)
    name = fields.text("model_type")
    if name not in ENCODERS and (name in FAMILIES or name not in parts.networks()):
        return _settled(read_config(config, origin), fields, "unpriced_parameters")
    graph = read_encoder(fields, ENCODERS[name]) if name in ENCODERS else parts.read_parts(fields)
    if fields.has(*FORMATS):
        from perfatlas.networks.hf_config.quantization import unread_formats

        graph = replace(graph, checkpoint=unread_formats(fields))
    return _settled(graph, fields, "weight_count")


def _settled(network: Network, fields: Fields, count: str) -> Network:
    """Return a network with all parameters that the model of its class has, where it is stated."""
    if (model := fields.child(META_MODEL)) is None:
        return network
    built, counted = model.integer("parameters", maximum=MAX_PARAMETERS), network.parameters().total
    source, missing = model.text("source")[:100], built - counted
    if abs(missing) <= SAME * built:
        doubts = [text for text in network.warnings if text.startswith(decoder.LEFT_OUT)]
        warnings = tuple(text for text in network.warnings if text not in doubts)
        same = f"as many parameters as {source}: {built:,}"
        return replace(network, warnings=warnings, notes=(*network.notes, same, *doubts))
    if missing < 0:
        more = f"{counted:,} parameters are counted, and {source} has {built:,}"
        return replace(network, warnings=(*network.warnings, more))
    unpriced = decoder.unpriced_text({f"modules of {source} that no operator reads": missing})
    changed: dict[str, Any] = {count: getattr(network, count) + missing}
    return replace(network, **changed, warnings=(*network.warnings, *unpriced))


def read_drafter(text: str) -> Architecture:
    """Return the layers of an EAGLE-3 drafter, with the vocabulary of its own head.

    Args:
        text: The path of its config.json, or of the folder.

    Raises:
        InvalidSpecError: The file cannot be read, or is not the config of such a drafter.
    """
    path = Path(text).expanduser()
    try:
        config = read_json(path / "config.json" if path.is_dir() else path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidSpecError(f"drafter = {repr_for_error(text)}: {why}") from error
    fields = Fields(values=config, origin=f"drafter {repr_for_error(text)}")
    built = fields.texts("architectures")[:1]
    if not any(DRAFTER in name for name in built):
        raise fields.invalid("architectures", f"an EAGLE-3 drafter names {DRAFTER}")
    layers = read_config({**config, "architectures": []}, fields.origin)
    vocabulary = fields.integer("draft_vocab_size", default=layers.vocab_size)
    return replace(layers, draft_vocab_size=vocabulary)


def _decoder(fields: Fields, outer: Fields) -> Architecture:
    """Return a decoder by the row of its family, else by the reader of its own."""
    model_type = fields.text("model_type")
    if model_type not in FAMILIES:
        from perfatlas.networks.hf_config.families import families, family_reader

        if model_type in families():
            return family_reader(model_type)(fields)
    return decoder.read(fields, _family(fields, outer), known=model_type in FAMILIES)


def _thinker(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Return the part of a model that speaks that generates text, and a warning of the others."""
    if (thinker := outer.child("thinker_config")) is None:
        return outer, ()
    kind = f"{outer.text('model_type')}_thinker"
    values = {"model_type": kind, **thinker.values}
    values |= {name: outer.values[name] for name in FORMATS if name in outer.values}
    note = "the thinker of a model that speaks; its talker and its vocoder are not counted"
    return Fields(values=values, origin=outer.origin), (note,)


def _typed(outer: Fields) -> Fields:
    """Return the fields with a model_type, by the class in `architectures` where none is stated."""
    if outer.has("model_type"):
        return outer
    if outer.has("dim") and outer.has("n_layers"):
        return _of_params(outer)
    from perfatlas.networks.hf_config.families import families

    for name in outer.texts("architectures")[:1]:
        head = _plain(re.split("(?<=[a-z0-9])(?:For|Model|LMHead)", name)[0])
        for model_type in (*families(), *FAMILIES):
            if _plain(model_type) == head:
                return replace(outer, values={**outer.values, "model_type": model_type})
    return outer


def _of_params(outer: Fields) -> Fields:
    """Return the fields of a params.json, the format of Mistral and of Llama.

    Source: mistral-inference, `ModelArgs`; llama-models, `FeedForward`: without `hidden_dim` the
        width is two thirds of 4 dim, times `ffn_dim_multiplier`, rounded up to `multiple_of`.
    """
    experts = outer.child("moe")
    values = {**outer.values, **(experts.values if experts else {})}
    values["model_type"] = "mixtral" if experts else "mistral"
    if experts and experts.has("expert_hidden_dim"):
        values["hidden_dim"] = experts.values["expert_hidden_dim"]
    if not values.get("hidden_dim"):
        factor = outer.values.get("ffn_dim_multiplier") or 1.0
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 100:
            raise outer.invalid("ffn_dim_multiplier", "expected a number from 0 to 100")
        multiple, width = outer.integer("multiple_of"), int(2 * 4 * outer.integer("dim") / 3)
        values["hidden_dim"] = -(-int(factor * width) // multiple) * multiple
        values["model_type"] = "llama"
    named = {_PARAMS.get(name, name): value for name, value in values.items()}
    absent = {"sliding_window": None, "max_position_embeddings": None}
    return Fields(values={**absent, **named}, origin=outer.origin)


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _family(fields: Fields, outer: Fields) -> Family:
    """Return what is known of the family of a decoder that has no reader of its own.

    Raises:
        UnsupportedError: Its layers are not modeled, or it is not clear that it is a decoder.
    """
    model_type = fields.text("model_type")
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    from perfatlas.networks.hf_config.encoders import ENCODERS
    from perfatlas.networks.hf_config.families import families

    shown = model_type[:60]
    nearest = did_you_mean(shown, (*FAMILIES, *families(), *ENCODERS))
    if model_type in decoder.class_defaults():
        raise UnsupportedError(
            f"{fields.origin}: model_type {shown!r} is not supported: its layers have operators"
            f" that are not modeled{parts.missing_operator(model_type)}; with the extra hf,"
            " perfatlas model import config.json --output net.toml may price a forward pass of it"
            f"{nearest}"
        )
    stated = canonical(fields, {})
    missing = [name for name in decoder.DIMENSIONS if not stated.has(name)]
    built = outer.texts("architectures")
    if outer.boolean("is_encoder_decoder", default=False) or (
        built and not built[0].endswith(DECODERS)
    ):
        missing = [f"an architecture that ends with {' or '.join(DECODERS)}"]
    if missing:
        raise UnsupportedError(
            f"{fields.origin}: model_type {shown!r} is not known{nearest}; a config of an unknown"
            f" family is read as that of a decoder by the names of its fields, and"
            f" this one lacks {', '.join(missing)}"
        )
    return decoder.Family()


def _text_part(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Return the fields of the language model, and a warning if it was wrapped."""
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
    """Return whether a config.json, or that of a folder, is one of a graph, as text encoders are.

    False for what cannot be read.
    """
    try:
        path = Path(text).expanduser()
        if not path.exists():
            return False
        from perfatlas.networks.hf_config.encoders import ENCODERS

        path = path / "config.json" if path.is_dir() else path
        read = path.stat()
        model_type = _model_type(path, read.st_mtime_ns, read.st_size) if path.is_file() else ""
        return model_type in ENCODERS or (
            model_type not in FAMILIES and model_type in parts.networks()
        )
    except (OSError, ValueError, RuntimeError, InvalidSpecError):
        return False


@lru_cache(maxsize=256)
def _model_type(path: Path, _changed_ns: int, _bytes: int) -> str:
    """Return the model_type of a config.json as it was at a time."""
    return str(read_json(path).get("model_type"))


def _read_file(path: Path) -> Network:
    """Return the network of a config.json, with the formats of a file beside it."""
    return read_network(with_formats(path), str(path))


def with_formats(path: Path) -> dict[str, object]:
    """Return the object of a config.json, with the number formats of a file beside it."""
    config = read_json(path)
    sidecar = path.with_name("hf_quant_config.json")
    if config.get("quantization_config") is None and sidecar.is_file():
        config["quantization_config"] = read_json(sidecar)
    return config


def read_json(path: Path) -> dict[str, object]:
    """Return the object of a JSON file of at most 16 MB."""
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
