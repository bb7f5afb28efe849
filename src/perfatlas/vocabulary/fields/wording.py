"""Texts of fields in documentation: default, bounds, condition; and the JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.vocabulary.fields.conditions import (
    AllOf,
    AnyOf,
    AnySet,
    Equals,
    Fact,
    NotEqual,
    NotSet,
    WithMessage,
    value_text,
)
from perfatlas.vocabulary.fields.questions import verb_fields
from perfatlas.vocabulary.fields.signatures import is_required

if TYPE_CHECKING:
    from perfatlas.vocabulary.fields.conditions import Condition
    from perfatlas.vocabulary.fields.rows import Field

SCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
FACTS: Final = {
    "experts": "an MoE model",
    "rate search": "a search for the largest rate",
    "steady rate": "open arrivals at a constant mean rate without num_requests",
}
_JSON_TYPES: Final[dict[Any, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def default_text(field: Field) -> str:
    """Return the default of a field as text, "" if it has none.

    Args:
        field: A field.

    Example:
        >>> from perfatlas.vocabulary.fields import default_text, verb_fields
        >>> asked = verb_fields("estimate")
        >>> default_text(asked["isl"]), default_text(asked["tp"])
        ('1024', 'the GPUs of one replica')
    """
    if field.required or field.row.default or field.default is None:
        return field.row.default
    return value_text(field.default)


def bounds_text(field: Field) -> str:
    """Return the allowed values of a field: its choices, or the bounds of its number; "" for any.

    Args:
        field: A field.

    Example:
        >>> from perfatlas.vocabulary.fields import bounds_text, verb_fields
        >>> bounds_text(verb_fields("estimate")["clock_ratio"])
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


def needs_text(condition: Condition | None) -> str:
    """Return the condition for a field to have an effect, "" for none.

    Args:
        condition: The condition of a row.

    Example:
        >>> from perfatlas.vocabulary.fields import verb_fields, needs_text
        >>> needs_text(verb_fields("kernel attention")["rope_dim"].row.needs)
        'kind = mla'
    """
    if condition is None:
        return ""
    match condition:
        case AnySet():
            text = " or ".join(condition.names)
        case NotSet():
            text = f"no {condition.name}"
        case Equals():
            text = f"{condition.name} = {' or '.join(map(value_text, condition.wanted))}"
        case NotEqual():
            text = f"{condition.name} other than {value_text(condition.value)}"
        case Fact():
            text = FACTS.get(condition.fact, condition.fact)
        case AllOf():
            text = " and ".join(map(needs_text, condition.conditions))
        case AnyOf():
            text = " or ".join(map(needs_text, condition.conditions))
        case WithMessage():
            text = needs_text(condition.condition)
        case _:
            raise TypeError(f"no text for {type(condition).__name__}")
    return text


def json_schema(question: str) -> dict[str, Any]:
    """Return the JSON schema of the fields of a verb.

    Numbers may be text with a unit; bounds are those of the number in SI units.

    Args:
        question: Key of `QUESTIONS`.

    Example:
        >>> from perfatlas.vocabulary.fields import json_schema
        >>> json_schema("kernel gemm")["required"]
        ['system', 'm', 'n', 'k']
    """
    fields = verb_fields(question)
    return {
        "$schema": SCHEMA,
        "title": f"perfatlas {question}",
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, field in fields.items() if is_required(field, fields)],
        "properties": {name: _property(field) for name, field in fields.items()},
    }


def _property(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"description": field.row.text}
    kind = _JSON_TYPES.get(field.type)
    if field.choices:
        found["enum"] = list(field.choices)
    elif field.number is not None:
        found["type"] = [kind, "string"]
        limits = {
            "minimum": field.number.at_least,
            "exclusiveMinimum": field.number.above,
            "maximum": field.number.at_most,
            "exclusiveMaximum": field.number.below,
        }
        found |= {name: limit for name, limit in limits.items() if limit is not None}
    elif kind is not None:
        found["type"] = kind
    if field.default is not None:
        found["default"] = field.default
    said = {"unit": field.unit, "needs": needs_text(field.row.needs), "unset": field.row.default}
    return found | {f"x-{name}": text for name, text in said.items() if text}
