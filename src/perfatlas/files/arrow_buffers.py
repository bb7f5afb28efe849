"""Arrow arrays made from their buffers.

`pyarrow.array`, `pyarrow.scalar` and `to_numpy` import pandas where it is installed, with explicit
types too, which takes longer than many tables.

Shape legend: N rows.
"""

from __future__ import annotations

from importlib import import_module
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.quantities import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DTYPES: Final = {float: "f8", int: "i8", bool: "?"}
_MAX_BYTES: Final = 2**31 - 1  # of the texts of a column with 32-bit offsets


def load_arrow(part: str = "") -> Any:  # noqa: ANN401 - a module
    """Return pyarrow, or a part of it such as "parquet".

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ModuleNotFoundError as missing:
        raise MissingDependencyError(
            "Parquet files, large tables, request traces, stored runs and measured tables need"
            " pyarrow, which is not installed: pip install 'pyarrow>=17'"
        ) from missing


def arrow_numbers(values_N: NDArray[Any], empty_N: NDArray[np.bool_] | None = None) -> Any:  # noqa: ANN401 - an Arrow array
    """Return numbers or booleans as an Arrow array, null where empty.

    Args:
        values_N: float64, int64 or bool (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.files.arrow_buffers import arrow_numbers
        >>> arrow_numbers(np.array([8, 9]), np.array([False, True])).to_pylist()
        [8, None]
    """
    pa = load_arrow()
    kinds = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_()}
    data_N = np.packbits(values_N, bitorder="little") if values_N.dtype == bool else values_N
    buffers = [_validity(empty_N), pa.py_buffer(np.ascontiguousarray(data_N))]
    return pa.Array.from_buffers(kinds[values_N.dtype.kind], values_N.size, buffers)


def arrow_texts(texts: Sequence[str | None]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return texts as an Arrow array of `large_string`, null where None.

    Example:
        >>> from perfatlas.files.arrow_buffers import arrow_texts
        >>> arrow_texts(["tp", "", None, "µs"]).to_pylist()
        ['tp', '', None, 'µs']
    """
    pa = load_arrow()
    encoded = [text.encode() if text else b"" for text in texts]
    ends_N = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [_validity(_empty(texts)), pa.py_buffer(ends_N), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def arrow_list(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return texts, floats, integers or booleans as an Arrow array, null where None.

    Args:
        cells: A list, or `DictionaryCells`.

    Returns:
        None if the cells are of another type, of several, or too large: `pyarrow.array` then knows
        what to do.

    Example:
        >>> from perfatlas.files.arrow_buffers import arrow_list
        >>> arrow_list(["compute", None, ""]).to_pylist(), arrow_list([1, "a"])
        (['compute', None, ''], None)
    """
    values: Sequence[Any] = cells.values if isinstance(cells, DictionaryCells) else cells
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) != 1 or not kinds <= {str, *_DTYPES}:
        return None
    kind = kinds.pop()
    if kind is int and not all(value is None or -(2**63) <= value < 2**63 for value in values):
        return None
    if kind is str:
        array = arrow_texts(values)
    else:
        filled = [kind() if value is None else value for value in values]
        array = arrow_numbers(np.array(filled, _DTYPES[kind]), _empty(values))
    if isinstance(cells, DictionaryCells):
        array = array.take(arrow_numbers(cells.codes_N.astype(np.int64)))
    if kind is str:
        return array.cast(load_arrow().string()) if array.nbytes <= _MAX_BYTES else None
    return array


def _empty(cells: Sequence[Any]) -> NDArray[np.bool_]:
    return np.fromiter(map(is_, cells, repeat(None)), np.bool_, len(cells))


def _validity(empty_N: NDArray[np.bool_] | None) -> Any:  # noqa: ANN401 - an Arrow buffer
    if empty_N is None or not empty_N.any():
        return None
    return load_arrow().py_buffer(np.packbits(~empty_N, bitorder="little"))
