"""Records of compiled code, declared as classes: mypy knows their fields, numpy their layout."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_NUMBERS: Final = {"int": "i8", "float": "f8", "np.uint64": "u8"}


def record_type(record: type) -> np.dtype[np.void]:
    """Return the numpy type of the rows that a class declares, aligned.

    Args:
        record: A class that is never built; its annotated fields are int (64 bits), float,
            np.uint64 or `repeated`.

    Raises:
        TypeError: A field is of another type.

    Example:
        >>> from perfatlas.compiled import record_type
        >>> class Part:
        ...     birth: float  # under `from __future__ import annotations`
        ...     unit: int
        >>> record_type(Part).names
        ('birth', 'unit')
    """
    kinds = record.__annotations__
    unknown = [name for name in kinds if name not in vars(record) and kinds[name] not in _NUMBERS]
    if unknown:
        name = f"{record.__name__}.{unknown[0]}"
        raise TypeError(f"{name}: {kinds[unknown[0]]} is not one of {', '.join(_NUMBERS)}")
    fields = [(name, vars(record).get(name) or _NUMBERS[kind]) for name, kind in kinds.items()]
    return np.dtype(fields, align=True)


def repeated(kind: type[int | float] | np.dtype[np.void], count: int) -> Any:  # noqa: ANN401 - the value of a field of any type
    """Return the declaration of a field with several numbers or records.

    Args:
        kind: int (64 bits), float, or the type of a record.
    """
    return np.dtype((kind, (count,)))
