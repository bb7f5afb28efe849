"""Dimensions of models that overrides change, and their text: `name{layers=64, kv_heads=4}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perfatlas.networks.layers import DenseFfn, GqaAttention, MlaAttention, MoeFfn
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

MAX_SIZE: Final = 10_000_000
MAX_LAYERS: Final = 10_000
MAX_TOKENS: Final = 1_000_000_000
MAX_PARAMETERS: Final = 10**15
MAX_TEXT_LENGTH: Final = 4096  # characters of a model with its overrides
EQUAL, SOLVE = "equal", "solve"
_SHAPE: Final = "name{field=value, field=value}"


@dataclass(frozen=True, kw_only=True)
class ModelField:
    """A dimension of a model that an override changes."""

    text: str
    # The part of a layer that has it: a class, or several; None for the model
    part: tuple[type, ...] = ()
    name: str  # Its attribute there
    least: int = 1  # Minimum
    most: int = MAX_SIZE  # Maximum
    solved: bool = False  # Whether it can be solved for
    is_width: bool = False  # Whether it is a width, which is solved in multiples


MODEL_FIELDS: Final = {
    "layers": ModelField(
        text="layers; groups of different layers keep their shares",
        name="num_layers",
        most=MAX_LAYERS,
        solved=True,
    ),
    "hidden_size": ModelField(text="hidden size", name="hidden_size", solved=True, is_width=True),
    "vocab_size": ModelField(text="vocabulary", name="vocab_size"),
    "heads": ModelField(
        text="query heads; their width stays", part=(GqaAttention, MlaAttention), name="num_heads"
    ),
    "kv_heads": ModelField(
        text="key-value heads, a divisor of heads", part=(GqaAttention,), name="num_kv_heads"
    ),
    "head_dim": ModelField(
        text="width of query, key and value heads", part=(GqaAttention,), name="head_dim"
    ),
    "latent_rank": ModelField(
        text="rank of the latent key-value cache of MLA", part=(MlaAttention,), name="kv_lora_rank"
    ),
    "window": ModelField(
        text="sliding window [tokens] of the layers that have one, or of all if none has one;"
        " 0 for full attention",
        part=(GqaAttention,),
        name="window",
        least=0,
        most=MAX_TOKENS,
    ),
    "intermediate_size": ModelField(
        text="width of dense feed-forward layers",
        part=(DenseFfn,),
        name="intermediate_size",
        solved=True,
        is_width=True,
    ),
    "experts": ModelField(
        text="routed experts of a layer", part=(MoeFfn,), name="num_experts", solved=True
    ),
    "experts_per_token": ModelField(
        text="experts that a token uses", part=(MoeFfn,), name="top_k", solved=True
    ),
    "expert_intermediate_size": ModelField(
        text="width of a routed expert",
        part=(MoeFfn,),
        name="intermediate_size",
        solved=True,
        is_width=True,
    ),
}
# keys of config.json and other spellings
_ALSO_CALLED: Final = {
    "num_hidden_layers": "layers",
    "num_layers": "layers",
    "num_attention_heads": "heads",
    "num_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "num_kv_heads": "kv_heads",
    "kv_lora_rank": "latent_rank",
    "sliding_window": "window",
    "num_experts": "experts",
    "num_local_experts": "experts",
    "n_routed_experts": "experts",
    "num_experts_per_tok": "experts_per_token",
    "top_k": "experts_per_token",
    "moe_intermediate_size": "expert_intermediate_size",
}


def split_changes(text: str) -> tuple[str, dict[str, str]]:
    """Return the name before the braces and the settings inside them.

    Example:
        >>> from perfatlas.networks.dimensions import split_changes
        >>> split_changes("Qwen/Qwen3-32B{layers=32}")
        ('Qwen/Qwen3-32B', {'layers': '32'})
    """
    head, _, tail = text.rstrip().partition("{")
    body = tail.removesuffix("}")
    where = f"model {repr_for_error(text)}"
    if not tail.endswith("}") or "{" in body or "}" in head + body:
        raise InvalidSpecError(f"{where}: overrides are written {_SHAPE}")
    if len(text) > MAX_TEXT_LENGTH:
        raise InvalidSpecError(f"{where} is longer than {MAX_TEXT_LENGTH} characters")
    settings: dict[str, str] = {}
    for part in filter(str.strip, body.split(",")):
        key, equals, value = part.partition("=")
        name = key.strip()
        if not equals or not value.strip():
            raise InvalidSpecError(f"{where}: {repr_for_error(part.strip())} is not field=value")
        if name in settings:
            raise InvalidSpecError(f"{where}: {name} is set twice")
        settings[name] = value.strip()
    return head.strip(), settings


def unknown_dimension(name: str) -> str:
    """Return that a model has no field of a name, with the nearest.

    Args:
        name: As the user wrote it.
    """
    ours = _ALSO_CALLED.get(name)
    hint = f"; perfatlas calls it {ours!r}" if ours else did_you_mean(name, MODEL_FIELDS)
    listed = "" if hint else f"; fields are {', '.join(MODEL_FIELDS)}, {EQUAL} and {SOLVE}"
    return f"unknown field {repr_for_error(name[:80])}{hint}{listed}"


def read_dimension(name: str, value: object) -> int:
    """Return the value of a field.

    Args:
        name: A field of `MODEL_FIELDS`.
        value: An integer, or its text.

    Raises:
        InvalidSpecError: It is no integer, or out of range.
    """
    field = MODEL_FIELDS[name]
    try:
        number = int(value) if isinstance(value, (str, int)) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or not field.least <= number <= field.most:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(value)}: expected an integer from {field.least:,} to"
            f" {field.most:,}"
        )
    return number
