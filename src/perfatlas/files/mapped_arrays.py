"""Arrays too large for memory, kept in files that nobody else sees and that go with the process.

A large array is mapped from a file without a name: the system writes pages that are not in use to
disk and takes their memory back. What runs through such an array from front to back needs the
memory of the part it is at.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files.folders import user_folder
from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    Int = NDArray[np.int64]

IN_MEMORY_BYTES: Final = 1 << 27  # of one array
_FILL_ROWS: Final = 1 << 20  # at a time


def roomy(rows: int, dtype: DTypeLike, *, fill: int = 0) -> NDArray[Any]:
    """Return an array of one value, in memory or, where it is large, on disk (rows,).

    Args:
        rows: How many.
        dtype: Of a row.
        fill: The value of every field.

    Raises:
        InfeasibleError: The disk has no room for it.

    Example:
        >>> import numpy as np
        >>> from perfatlas.files import roomy
        >>> roomy(3, np.int64, fill=-1).tolist()
        [-1, -1, -1]
    """
    kind = np.dtype(dtype)
    if rows * kind.itemsize <= IN_MEMORY_BYTES:
        return np.full(rows, fill, kind) if fill else np.zeros(rows, kind)
    with _scratch_file() as file, _told_when_full():
        if hasattr(os, "posix_fallocate"):  # a page that is written later has its place
            os.posix_fallocate(file.fileno(), 0, rows * kind.itemsize)
        else:
            file.truncate(rows * kind.itemsize)
        array = _mapped(file, rows, kind)
    for first in range(0, rows if fill else 0, _FILL_ROWS):
        array[first : first + _FILL_ROWS] = fill
    return array


class GrowingColumn:
    """An int64 array with room at its end, grown in place where the system can, large on disk."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._room: Int = np.empty(0, np.int64)
        self._size = 0
        self._file: IO[bytes] | None = None

    def extend(self, part: Int) -> None:
        """Append rows.

        Args:
            part: They (B,).

        Raises:
            InfeasibleError: The disk has no room for a large column.
        """
        size = self._size + part.shape[0]
        if self._file is None and size * part.itemsize > IN_MEMORY_BYTES:
            self._file = _scratch_file()
            _append(self._file, self._room[: self._size])
            self._room = np.empty(0, np.int64)
        if self._file is not None:
            _append(self._file, part)
        else:
            if size > self._room.shape[0]:
                # no view of it is ever given out before `whole`
                self._room.resize(max(size, self._room.shape[0] * 5 // 4), refcheck=False)
            self._room[self._size : size] = part
        self._size = size

    def whole(self) -> Int:
        """Return the array without its room; nothing is appended after."""
        if self._file is not None:
            with self._file, _told_when_full():
                return _mapped(self._file, self._size, np.dtype(np.int64))
        self._room.resize(self._size, refcheck=False)
        return self._room


def _append(file: IO[bytes], part: Int) -> None:
    with _told_when_full():
        file.write(np.ascontiguousarray(part).data)


def _mapped(file: IO[bytes], rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the content of a scratch file as an array (rows,); the file may be closed after."""
    file.flush()
    # a plain array: what is compiled for arrays in memory takes it
    return np.asarray(np.memmap(file, dtype, "r+", shape=(rows,)))


def _scratch_file() -> IO[bytes]:
    """Return a new file without a name, in the user's cache folder; it goes when it is closed."""
    folder = user_folder("cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise InfeasibleError(
            f"large arrays are kept in {folder}, which cannot be written: {error.strerror}",
            advice=("PERFATLAS_HOME names another place",),
        ) from error


@contextmanager
def _told_when_full() -> Iterator[None]:
    """Let what writes scratch files say where there is no room."""
    try:
        yield
    except OSError as error:
        raise InfeasibleError(
            f"arrays larger than memory are kept in {user_folder('cache')}: {error.strerror}",
            advice=("free the disk, or let PERFATLAS_HOME name another one", "read fewer requests"),
        ) from error
