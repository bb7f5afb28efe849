"""Unique rows of a shape table, so that each distinct shape is priced once.

Shape legend: R rows, D columns, U unique rows, H slots of a hash table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators.work import FloatArray, IntArray

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd multiplier of a multiplicative hash
_SHIFT = np.uint64(29)
_SIGNED_MIX: Final = 0x9E3779B97F4A7C15 - (1 << 64)  # the same bits as a signed integer
_LOW_BITS: Final = (1 << 35) - 1  # those that a logical shift by 29 leaves
# Above this number of rows, loading machine code is faster than sorting.
MANY_ROWS: Final = 4096


def unique_rows(rows_RD: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first index of each distinct row (U,) and each row's position among them (R,).

    Many rows go through a compiled hash table that compares whole rows. Few are hashed to 64 bits
    and sorted as integers; the result is checked against the rows, and on a collision, rows are
    compared exactly. The order of the distinct rows is not specified.

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import unique_rows
        >>> first, where = unique_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
        >>> len(first), bool(where[0] == where[2])
        (2, True)
    """
    if rows_RD.shape[0] == 1:
        zero = np.zeros(1, np.int64)
        return zero, zero
    if rows_RD.shape[0] >= MANY_ROWS:
        return _hashed(rows_RD)
    return _sorted(rows_RD)


def _hashed(rows_RD: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows by a hash table, in the order of their first rows."""
    count = rows_RD.shape[0]
    bits_RD = np.ascontiguousarray(rows_RD + 0.0).view(np.int64)
    first_R, inverse_R = np.empty(count, np.int64), np.empty(count, np.int64)
    slots_H = np.full(1 << (2 * count - 1).bit_length(), -1, np.int64)
    distinct = _fill(bits_RD, slots_H, first_R, inverse_R)
    return first_R[:distinct].copy(), inverse_R


@compiled
def _fill(
    bits_RD: NDArray[np.int64], slots_H: IntArray, first_R: IntArray, inverse_R: IntArray
) -> int:
    """Write first rows and positions; return the number of distinct rows.

    Args:
        slots_H: Empty slots, -1 each; a power of two, at least twice as many as rows (H,).
    """
    distinct, last, width = 0, slots_H.shape[0] - 1, bits_RD.shape[1]
    for row in range(bits_RD.shape[0]):
        mixed = 0
        for column in range(width):
            mixed = (mixed ^ bits_RD[row, column]) * _SIGNED_MIX
            mixed ^= (mixed >> 29) & _LOW_BITS
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
            while column < width and bits_RD[other, column] == bits_RD[row, column]:
                column += 1
            if column == width:
                inverse_R[row] = index
                break
            slot = (slot + 1) & last
    return distinct


def _sorted(rows_RD: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows by sorting their hashes."""
    bits_RD = np.ascontiguousarray(rows_RD + 0.0).view(np.uint64)
    hash_R = np.zeros(rows_RD.shape[0], np.uint64)
    for column in range(rows_RD.shape[1]):
        hash_R ^= bits_RD[:, column]
        hash_R *= _MIX
        hash_R ^= hash_R >> _SHIFT
    _, first, inverse = np.unique(hash_R, return_index=True, return_inverse=True)
    if not np.array_equal(rows_RD[first][inverse], rows_RD):
        _, first, inverse = np.unique(rows_RD, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64)
