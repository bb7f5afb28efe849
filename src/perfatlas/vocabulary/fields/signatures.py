"""Fields as arguments of a Python function."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.vocabulary.fields.rows import Field


def annotation_of(field: Field) -> str:
    """Return the type of a field as Python source; numbers may be text with a unit.

    Example:
        >>> from perfatlas.vocabulary.fields import Lengths, annotation_of, fields_of
        >>> annotation_of(fields_of(Lengths)["isl"])
        'int | str'
    """
    if field.choices:
        return f"Literal[{', '.join(map(repr, field.choices))}]"
    if field.number is not None:
        return f"{field.type.__name__} | str"
    return field.type.__name__ if field.type in (str, bool, int, float) else "object"


def is_required(field: Field, fields: Mapping[str, Field]) -> bool:
    """Return whether a field must be set; fields that both pools may override need not be."""
    return field.required and not any(f"{pool}_{field.name}" in fields for pool in field.row.pools)


def parameter_of(field: Field, fields: Mapping[str, Field]) -> inspect.Parameter:
    """Return a field as a keyword argument."""
    annotation, default = annotation_of(field), field.default
    if is_required(field, fields):
        default = inspect.Parameter.empty
    elif default is None and annotation != "object":
        annotation += " | None"
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, kind, default=default, annotation=annotation)
