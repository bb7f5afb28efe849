"""Columns of candidates: checked inputs, and values with their range of validity.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Validity(NamedTuple):
    """A value per candidate and whether its formula is valid there."""

    value_C: FloatArray  # The values (C,)
    valid_C: BoolArray  # Whether the formula holds within what its function documents (C,)
    reason_C: NDArray[np.str_]  # Why it is not valid, or another remark; "" for none (C,)


def positive(name: str, values: ArrayLike) -> FloatArray:
    """Return a column of finite numbers above zero.

    Args:
        values: Numbers (C,) or a scalar.

    Raises:
        InvalidSpecError: A value is not finite, zero or negative.
    """
    return _checked(name, values, lowest=0.0, open_end=True)


def not_negative(name: str, values: ArrayLike) -> FloatArray:
    """Return a column of finite numbers, none below zero.

    Args:
        values: Numbers (C,) or a scalar.

    Raises:
        InvalidSpecError: A value is not finite or negative.
    """
    return _checked(name, values, lowest=0.0, open_end=False)


def whole(name: str, values: ArrayLike, *, lowest: int = 0) -> NDArray[np.int64]:
    """Return a column of whole numbers.

    Args:
        values: Numbers (C,) or a scalar.

    Raises:
        InvalidSpecError: A value is not whole or below `lowest`.
    """
    column = not_negative(name, values)
    wrong = (column != np.floor(column)) | (column < lowest) | (column >= 2.0**53)
    if np.any(wrong):
        value = np.atleast_1d(column)[np.atleast_1d(wrong)][0]
        raise InvalidSpecError(f"{name} = {value:g}: expected a whole number from {lowest}")
    return column.astype(np.int64)


def _checked(name: str, values: ArrayLike, *, lowest: float, open_end: bool) -> FloatArray:
    try:
        column = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidSpecError(f"{name}: expected numbers, got {str(values)[:60]!r}") from error
    wrong = ~np.isfinite(column) | (column <= lowest if open_end else column < lowest)
    if np.any(wrong):
        value = np.atleast_1d(column)[np.atleast_1d(wrong)][0]
        rule = "above zero" if open_end else "not below zero"
        raise InvalidSpecError(f"{name} = {value:g}: expected a finite number {rule}")
    return column
