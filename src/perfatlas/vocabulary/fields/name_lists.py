"""Fields that list several names or numbers, written as text with commas between them."""

from __future__ import annotations

from typing import Annotated

from perfatlas.quantities import repr_for_error
from perfatlas.vocabulary.fields.rows import Written


def read_names(value: object) -> object:
    """Return the names of a list written as text, such as "bf16,fp8"; other values unchanged.

    A comma inside braces belongs to the name, as in h200_sxm{device.tdp=500W,device.count=4}.

    Raises:
        ValueError: The list is empty, or one of its names is.
    """
    if isinstance(value, list):
        return tuple(value)
    if not isinstance(value, str):
        return value
    names, depth = [""], 0
    for character in value:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            names.append("")
        else:
            names[-1] += character
    stripped = tuple(name.strip() for name in names)
    if not all(stripped):
        raise ValueError(f"{repr_for_error(value)}: expected names divided by commas")
    return stripped


def read_fractions(value: object) -> object:
    """Return the fractions of a list written as text, such as "0.9,0.7"; other values unchanged."""
    names = read_names(value)
    names = (value,) if isinstance(value, float | int) else names
    if not isinstance(names, tuple):
        return names
    for name in names or ("",):
        try:
            wrong = isinstance(name, bool) or not 0.0 <= float(name) <= 1.0
        except (TypeError, ValueError, OverflowError):
            wrong = True
        if wrong:
            raise ValueError(
                f"{repr_for_error(name)}: expected numbers from 0 to 1 divided by commas"
            )
    return tuple(float(name) for name in names)


Names = Annotated[tuple[str, ...], Written(read_names)]
Fractions = Annotated[tuple[float, ...], Written(read_fractions)]
