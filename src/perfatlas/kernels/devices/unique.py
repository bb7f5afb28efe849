"""Unique rows of a shape table, so that each distinct shape is priced once.

Shape legend: R rows, D columns, U unique rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd multiplier of a multiplicative hash
_SHIFT = np.uint64(29)


def unique_rows(rows_RD: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first index of each distinct row (U,) and each row's position among them (R,).

    Rows are hashed to 64 bits and sorted as integers. The result is checked against the rows; on a
    collision, rows are compared exactly.

    Example:
        >>> import numpy as np
        >>> from perfatlas.kernels.devices import unique_rows
        >>> first, where = unique_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
        >>> len(first), bool(where[0] == where[2])
        (2, True)
    """
    if rows_RD.shape[0] == 1:
        zero = np.zeros(1, np.int64)
        return zero, zero
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
