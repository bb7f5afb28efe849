"""Fields that list several names, written as text with commas between them."""

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
    found = tuple(name.strip() for name in names)
    if not all(found):
        raise ValueError(f"{repr_for_error(value)}: expected names divided by commas")
    return found


Names = Annotated[tuple[str, ...], Written(read_names)]
