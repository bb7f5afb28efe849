"""config.json -> Architecture: finds the family, unwraps multimodal models, reads formats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfatlas.models.families import families, family_reader
from perfatlas.models.fields import Fields
from perfatlas.models.quantization import checkpoint_formats
from perfatlas.quantities import UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.models.architecture import Architecture


def read_config(config: Mapping[str, object], origin: str) -> Architecture:
    """Return the architecture a Hugging Face config.json describes.

    Nothing in the config is executed: `auto_map` is ignored.

    Args:
        config: The parsed JSON object.
        origin: File or catalog id, named in errors.

    Raises:
        UnsupportedError: No family reads this model_type.
        InvalidSpecError: A field is missing, of the wrong type or contradicts another.

    Example:
        >>> from perfatlas.models import read_config
        >>> config = {
        ...     "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        ...     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        ...     "vocab_size": 128256,
        ... }
        >>> read_config(config, "example").num_layers
        32
    """
    outer = Fields(values=config, origin=origin)
    fields, notes = _text_part(outer)
    model_type = fields.text("model_type")
    if not model_type:
        raise outer.invalid("model_type", "a string such as 'llama' is required")
    if model_type not in families():
        raise _unknown_family(model_type, origin)
    architecture = family_reader(model_type)(fields)
    checkpoint, format_notes = checkpoint_formats(outer, fields, architecture)
    if outer.has("auto_map"):
        notes = (*notes, "auto_map names Python code; it was ignored, nothing was executed")
    return replace(
        architecture, checkpoint=checkpoint, notes=(*notes, *architecture.notes, *format_notes)
    )


def _unknown_family(model_type: str, origin: str) -> UnsupportedError:
    shown = model_type if len(model_type) <= 60 else f"{model_type[:57]}..."
    nearest = did_you_mean(shown, families())
    return UnsupportedError(
        f"{origin}: no family reads model_type {shown!r}{nearest}; to add it, write"
        f" src/perfatlas/models/families/{shown.replace('-', '_')}.py with a function `read`"
    )


def _text_part(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Return the fields of the language model and a note when a wrapper was opened."""
    text = outer.child("text_config")
    if text is None:
        return outer, ()
    wrapper = outer.text("model_type", default="multimodal")
    values = dict(text.values)
    values.setdefault("model_type", wrapper)
    if outer.has("tie_word_embeddings"):
        values["tie_word_embeddings"] = outer.values["tie_word_embeddings"]
    note = f"text part of the multimodal model {wrapper}; other encoders are not counted"
    return Fields(values=values, origin=outer.origin), (note,)
