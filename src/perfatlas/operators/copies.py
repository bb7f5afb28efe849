"""Copies of operators and other frozen records of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from perfatlas.operators.work import IntArray

    Record = TypeVar("Record", bound=DataclassInstance)


def with_fields(record: Record, **fields: Any) -> Record:  # noqa: ANN401 - fields of any type
    """Return a copy of a record with some fields replaced.

    Equals `dataclasses.replace` for records whose constructor only stores its arguments, in a sixth
    of the time: every step copies hundreds of operators.

    Args:
        record: A frozen dataclass without slots, cached properties and `__post_init__`.

    Raises:
        TypeError: The record has no such field.

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import Phase, Streaming, with_fields
        >>> one = np.ones(1)
        >>> norm = Streaming(name="norm", phase=Phase.DECODE, count=one, stream="norm", tokens=one,
        ...     read_bytes=one, write_bytes=one, cold_read_bytes=one)
        >>> float(with_fields(norm, tokens=8 * one).tokens[0])
        8.0
    """
    copied = object.__new__(type(record))
    current, values = record.__dict__, copied.__dict__
    values.update(current)
    values.update(fields)
    if len(values) != len(current):
        unknown = ", ".join(sorted(fields.keys() - current.keys()))
        raise TypeError(f"{type(record).__name__} has no field {unknown}")
    return copied


def take_candidates(record: Record, some_X: IntArray, every: int) -> Record:
    """Return an operator, or a record of columns (C,), for some of its candidates.

    Args:
        some_X: Positions of the candidates (X,).
    """
    taken = {
        name: values[some_X]
        for name, values in vars(record).items()
        if isinstance(values, np.ndarray) and values.shape == (every,)
    }
    return with_fields(record, **taken)
