"""Unique rows of a shape table, so that each distinct shape is priced once.

Shape legend: R rows, D columns, U unique rows, H slots of a hash table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators.work import FloatArray, IntArray

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd multiplier of a multiplicative hash
_SHIFT = np.uint64(29)
_SIGNED_MIX: Final = 0x9E3779B97F4A7C15 - (1 << 64)  # the same bits as a signed integer
_LOW_BITS: Final = (1 << 35) - 1  # those that a logical shift by 29 leaves
# Above this number of rows, loading machine code is faster than sorting.
MANY_ROWS: Final = 4096


def unique_rows(columns: Sequence[NDArray[Any]]) -> tuple[IntArray, IntArray]:
    """Return the first index of each distinct row (U,) and each row's position among them (R,).

    Columns are (R,) each. Many rows go through a compiled hash table that compares whole rows. Few
    are hashed to 64 bits and sorted as integers; on a collision, rows are compared exactly. The
    order of the distinct rows is not specified.

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import unique_rows
        >>> first, where = unique_rows([np.array([1.0, 3.0, 1.0]), np.array([2.0, 4.0, 2.0])])
        >>> len(first), bool(where[0] == where[2])
        (2, True)
    """
    values_DR = np.array(columns, np.float64)
    values_DR += 0.0  # -0 equals 0
    if values_DR.shape[1] == 1:
        zero = np.zeros(1, np.int64)
        return zero, zero
    if values_DR.shape[1] >= MANY_ROWS:
        return _hashed(values_DR)
    return _sorted(values_DR)


def _hashed(values_DR: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows by a hash table, in the order of their first rows."""
    count = values_DR.shape[1]
    first_R, inverse_R = np.empty(count, np.int64), np.empty(count, np.int64)
    slots_H = np.full(1 << (2 * count - 1).bit_length(), -1, np.int64)
    hash_R = np.zeros(count, np.int64)
    distinct = _fill(hash_R, values_DR.view(np.int64), slots_H, first_R, inverse_R)
    return first_R[:distinct].copy(), inverse_R


@compiled
def _fill(
    hash_R: IntArray,
    bits_DR: NDArray[np.int64],
    slots_H: IntArray,
    first_R: IntArray,
    inverse_R: IntArray,
) -> int:
    """Write first rows and positions; return the number of distinct rows.

    Args:
        hash_R: Zeros, which become the hashes of the rows (R,).
        slots_H: Empty slots, -1 each; a power of two, at least twice as many as rows (H,).
    """
    distinct, last, width = 0, slots_H.shape[0] - 1, bits_DR.shape[0]
    for column in range(width):
        for row in range(hash_R.shape[0]):
            mixed = (hash_R[row] ^ bits_DR[column, row]) * _SIGNED_MIX
            hash_R[row] = mixed ^ ((mixed >> 29) & _LOW_BITS)
    for row in range(hash_R.shape[0]):
        mixed = hash_R[row]
        slot = (mixed ^ (mixed >> 32)) & last
        while True:
            index = slots_H[slot]
            if index < 0:
                slots_H[slot] = distinct
                first_R[distinct] = row
                inverse_R[row] = distinct
                distinct += 1
                break
            other, column = first_R[index], 0
            if hash_R[other] == mixed:
                while column < width and bits_DR[column, other] == bits_DR[column, row]:
                    column += 1
                if column == width:
                    inverse_R[row] = index
                    break
            slot = (slot + 1) & last
    return distinct


def _sorted(values_DR: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows by sorting their hashes."""
    hash_R = np.zeros(values_DR.shape[1], np.uint64)
    for bits_R in values_DR.view(np.uint64):
        hash_R ^= bits_R
        hash_R *= _MIX
        hash_R ^= hash_R >> _SHIFT
    _, first, inverse = np.unique(hash_R, return_index=True, return_inverse=True)
    if not np.array_equal(values_DR[:, first][:, inverse], values_DR):
        _, first, inverse = np.unique(values_DR, axis=1, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64)
