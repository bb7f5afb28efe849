"""Texts of fields in documentation: default, bounds, condition; and the JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.signatures import is_required

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perfatlas.vocabulary.fields.rows import Field

SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
FACTS: Final = {
    "tokens": "a language model",
    "graph": "a network that is a graph of operators",
    "denoiser": "a diffusion pipeline whose denoiser is a transformer",
    "guidance": "a diffusion pipeline that runs its denoiser with and without a prompt",
    "experts": "an MoE model",
    "vision encoder": "a model with a vision encoder",
    "experts or tables": "an MoE model, or a graph with embedding tables",
    "expert format": "an MoE model",
    "expert ranks": "an MoE model and ep above 1",
    "token exchange": "an MoE model and attention_dp above 1",
    "overlapped exchange": "an MoE model and attention_dp above 1; single_batch: shared experts",
    "SGLang scheduler": "the SGLang scheduler",
    "prompt balance": "the TensorRT-LLM scheduler and attention_dp above 1",
    "search": "--find-rate, --find-replicas or --find-sessions",
    "steady rate": "open arrivals at a constant mean rate without num_requests",
    "front end": "an engine whose front end takes time",
    "random draws": "something drawn at random",
    "several replicas": "several replicas",
    "simulation": "a simulation",
    "spares of no other kind": "spares whose kind response does not set",
    "spares that join in place": "a response that keeps the nodes of a job",
    "units that differ": "units that differ",
    "silent errors": "a fleet with silent errors",
    "strategy with bandwidths": "a strategy with bandwidths",
    "strategy without shrink": "a strategy that does not shrink the job",
    "strategy without verification": "a strategy without verification",
}
_JSON_TYPES: Final[dict[Any, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def default_text(field: Field) -> str:
    """Return the default of a field as text, "" if it has none.

    Example:
        >>> from perfatlas.vocabulary.fields import ESTIMATED, default_text, fields_of
        >>> fields = fields_of(*ESTIMATED)
        >>> default_text(fields["isl"]), default_text(fields["tp"])
        ('1024', 'the GPUs of one replica; search tries all')
    """
    if field.required or field.row.default or field.default is None:
        return field.row.default
    return conditions.value_text(field.default)


def bounds_text(field: Field) -> str:
    """Return the allowed values of a field: its choices, or the bounds of its number; "" for any.

    Example:
        >>> from perfatlas.vocabulary.fields import ESTIMATED, bounds_text, fields_of
        >>> bounds_text(fields_of(*ESTIMATED)["clock_ratio"])
        '0.05 to 2'
    """
    if field.choices:
        return ", ".join(field.choices)
    rule = field.number
    if rule is None:
        return ""
    if rule.at_least is not None and rule.at_most is not None:
        return f"{_plain(rule.at_least)} to {_plain(rule.at_most)}"
    limits = {
        "at least": rule.at_least,
        "more than": rule.above,
        "at most": rule.at_most,
        "less than": rule.below,
    }
    return ", ".join(
        f"{words} {_plain(limit)}" for words, limit in limits.items() if limit is not None
    )


def _plain(limit: float) -> str:
    """Return a number without leading zeros in its exponent: 1e9."""
    return f"{limit:g}".replace("e+0", "e").replace("e+", "e")


def needs_text(condition: conditions.Condition | None, names: Collection[str] = ()) -> str:
    """Return the condition for a field to have an effect, "" for none.

    Args:
        names: Fields of the verb; others are not named. By default all are named.

    Example:
        >>> from perfatlas.vocabulary.fields import AttentionShape, ScheduledFailures
        >>> from perfatlas.vocabulary.fields import fields_of, needs_text
        >>> needs_text(fields_of(AttentionShape)["rope_dim"].row.needs)
        'kind = mla'
        >>> asked = fields_of(ScheduledFailures)
        >>> needs_text(asked["repair_s"].row.needs, asked)
        'no fleet, no failures and node_mtbf_s'
    """
    if condition is None:
        return ""
    if isinstance(condition, conditions.Noted):
        return needs_text(condition.condition, names)
    if names and not _may_be_read(condition, names):
        return ""
    match condition:
        case conditions.AllOf() | conditions.AnyOf():
            word = "and" if isinstance(condition, conditions.AllOf) else "or"
            parts = {part: needs_text(part, names) for part in _flat(condition)}
            return _joined({part: text for part, text in parts.items() if text}, word)
        case conditions.WithMessage():
            return condition.text or needs_text(condition.condition, names)
        case _:
            return _simple_text(condition, names)


def _simple_text(condition: conditions.Condition, names: Collection[str]) -> str:
    """Return the text of a condition that holds no others."""
    match condition:
        case conditions.AnySet():
            text = " or ".join(name for name in condition.names if not names or name in names)
        case conditions.NotSet():
            text = f"no {condition.name}"
        case conditions.Equals():
            text = f"{condition.name} = {' or '.join(map(conditions.value_text, condition.wanted))}"
        case conditions.NotEqual():
            text = f"{condition.name} other than {conditions.value_text(condition.value)}"
        case conditions.Fact():
            text = FACTS.get(condition.fact, condition.fact)
        case _:
            raise TypeError(f"no text for {type(condition).__name__}")
    return text


def _may_be_read(condition: conditions.Condition, names: Collection[str]) -> bool:
    """Return whether a condition depends on a field of the verb, or on a fact."""
    return isinstance(condition, conditions.Fact) or any(
        name in names or name in FACTS for name in condition.reads
    )


def _flat(condition: conditions.AllOf | conditions.AnyOf) -> Iterator[conditions.Condition]:
    """Yield the conditions of one, those of its own kind taken apart."""
    for part in condition.conditions:
        if isinstance(part, conditions.AllOf | conditions.AnyOf) and type(part) is type(condition):
            yield from _flat(part)
        else:
            yield part


def _joined(parts: Mapping[conditions.Condition, str], word: str) -> str:
    """Return conditions as one: "a and b", "a, b and (c or d)"."""
    reasons = [
        text
        if isinstance(condition, conditions.Equals) or len(parts) == 1 or not _is_composed(text)
        else f"({text})"
        for condition, text in parts.items()
    ]
    *most, last = dict.fromkeys(reasons)
    return f"{', '.join(most)} {word} {last}" if most else last


def _is_composed(text: str) -> bool:
    return " and " in text or " or " in text


def json_schema(question: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return the JSON schema of what a verb can be asked.

    Numbers may be text with a unit; bounds are those of the number in SI units.

    Example:
        >>> from perfatlas.vocabulary.fields import GemmShape, fields_of, json_schema
        >>> json_schema("kernel gemm", fields_of(GemmShape))["required"]
        ['m', 'n', 'k']
    """
    return {
        "$schema": SCHEMA,
        "title": f"perfatlas {question}",
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, field in fields.items() if is_required(field, fields)],
        "properties": {name: _property(field, fields) for name, field in fields.items()},
    }


def _property(field: Field, names: Collection[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field.row.text}
    kind = _JSON_TYPES.get(field.type)
    if field.choices:
        schema["enum"] = list(field.choices)
    elif field.number is not None:
        schema["type"] = [kind, "string"]
        limits = {
            "minimum": field.number.at_least,
            "exclusiveMinimum": field.number.above,
            "maximum": field.number.at_most,
            "exclusiveMaximum": field.number.below,
        }
        schema |= {name: limit for name, limit in limits.items() if limit is not None}
    elif kind is not None:
        schema["type"] = kind
    if field.default is not None:
        schema["default"] = field.default
    notes = {
        "unit": field.unit,
        "needs": needs_text(field.row.needs, names),
        "unset": field.row.default,
    }
    return schema | {f"x-{name}": text for name, text in notes.items() if text}
