"""Arrow arrays made from their buffers, and the reverse.

`pyarrow.array` and `to_numpy` import pandas where it is installed, which takes longer than many
tables.

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


def arrow_numbers(values_N: NDArray[Any], empty_N: NDArray[np.bool_]) -> Any:  # noqa: ANN401 - an Arrow array
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


def arrow_dictionary(cells: DictionaryCells) -> Any:  # noqa: ANN401 - an Arrow array
    """Return the cells of few distinct values as a plain Arrow array, null where None.

    Returns:
        None where `arrow_list` of the cells returns None.
    """
    kinds = set(map(type, cells.values)) - {type(None)}
    if kinds == {str}:
        return _texts(cells)
    if arrow_list(cells.values) is None:
        return None
    empty_N = cells.where(lambda value: value is None)
    filled_V = np.array([value or 0 for value in cells.values], _DTYPES[kinds.pop()])
    return arrow_numbers(filled_V[cells.codes_N], empty_N)


def arrow_list(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return a list of texts, floats, integers or booleans as an Arrow array, null where None.

    Returns:
        None if the cells are of another type, of several, or too large: `pyarrow.array` then knows
        what to do.

    Example:
        >>> from perfatlas.files.arrow_buffers import arrow_list
        >>> arrow_list(["compute", None, ""]).to_pylist(), arrow_list([1, "a"])
        (['compute', None, ''], None)
    """
    kinds = set(map(type, cells)) - {type(None)}
    if len(kinds) != 1 or next(iter(kinds)) not in (str, *_DTYPES):
        return None
    kind = kinds.pop()
    if kind is str:
        return _texts(DictionaryCells.of(cells))
    empty_N = np.fromiter(map(is_, cells, repeat(None)), np.bool_, len(cells))
    if kind is int and not all(cell is None or -(2**63) <= cell < 2**63 for cell in cells):
        return None
    filled = [kind() if cell is None else cell for cell in cells]
    return arrow_numbers(np.array(filled, _DTYPES[kind]), empty_N)


def arrow_texts(texts: Sequence[str]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return texts as an Arrow array of `large_string`.

    Example:
        >>> from perfatlas.files.arrow_buffers import arrow_texts
        >>> arrow_texts(["tp", "", "µs"]).to_pylist()
        ['tp', '', 'µs']
    """
    pa = load_arrow()
    encoded = [text.encode() for text in texts]
    ends_N = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends_N), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(encoded), buffers)


def dictionary_codes(coded: Any) -> NDArray[np.int32]:  # noqa: ANN401 - an Arrow array
    """Return the code of each value of a dictionary array without nulls (N,).

    Args:
        coded: As `dictionary_encode` returns it.

    Example:
        >>> from perfatlas.files.arrow_buffers import arrow_texts, dictionary_codes
        >>> dictionary_codes(arrow_texts(["a", "b", "a"]).dictionary_encode()).tolist()
        [0, 1, 0]
    """
    codes = coded.indices
    whole = np.frombuffer(codes.buffers()[1], np.int32)
    return whole[codes.offset : codes.offset + len(codes)]


def _texts(cells: DictionaryCells) -> Any:  # noqa: ANN401 - an Arrow array
    """Return texts as an Arrow array; None if they are too long."""
    pa = load_arrow()
    encoded = [(value or "").encode() for value in cells.values]
    sizes_V = np.array([len(text) for text in encoded], np.int64)
    ends_N = np.concatenate([[0], np.cumsum(sizes_V[cells.codes_N])])
    if ends_N[-1] > _MAX_BYTES:
        return None
    content = b"".join(map(encoded.__getitem__, cells.codes_N.tolist()))
    empty_N = cells.where(lambda value: value is None)
    buffers = [_validity(empty_N), pa.py_buffer(ends_N.astype(np.int32)), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(cells), buffers)


def _validity(empty_N: NDArray[np.bool_]) -> Any:  # noqa: ANN401 - an Arrow buffer
    pa = load_arrow()
    return pa.py_buffer(np.packbits(~empty_N, bitorder="little")) if empty_N.any() else None
