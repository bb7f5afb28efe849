"""Arrays that may exceed memory, backed by anonymous files that disappear with the process.

A large array is mapped from an unlinked file: the operating system writes unused pages to disk and
reclaims their memory. A pass that releases the pages it has used needs memory for the current part
only.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files.regular import home_variable, user_folder
from perfatlas.quantities import InfeasibleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import DTypeLike, NDArray

    Int = NDArray[np.int64]

IN_MEMORY_BYTES: Final = 1 << 25  # per array
RESERVED_BYTES: Final = 1 << 30  # per array, from which no memory is reserved
NO_RESERVE: Final = 0x4000  # MAP_NORESERVE of Linux, which mmap names from Python 3.13 on
_FILL_ROWS: Final = 1 << 20  # per write


def large_array(rows: int, dtype: DTypeLike, *, fill: int = 0) -> NDArray[Any]:
    """Return a constant array, in memory or, if it is large, on disk (rows,).

    Args:
        fill: Value of every field.

    Raises:
        InfeasibleError: The disk is full.

    Example:
        >>> import numpy as np
        >>> from perfatlas.files import large_array
        >>> large_array(3, np.int64, fill=-1).tolist()
        [-1, -1, -1]
    """
    kind = np.dtype(dtype)
    if rows * kind.itemsize <= IN_MEMORY_BYTES:
        return np.full(rows, fill, kind) if fill else np.zeros(rows, kind)
    with _scratch_file() as file, _report_full_disk():
        if hasattr(os, "posix_fallocate"):  # reserves space for pages that are written later
            os.posix_fallocate(file.fileno(), 0, rows * kind.itemsize)
        else:
            file.truncate(rows * kind.itemsize)
        array = _mapped(file, rows, kind)
    for first in range(0, rows if fill else 0, _FILL_ROWS):
        array[first : first + _FILL_ROWS] = fill
    release_pages(array)
    return array


def unreserved(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of zeros that takes the memory of touched pages, however large it is.

    Linux refuses to reserve more memory at once than the machine has, unless asked not to reserve.

    Raises:
        MemoryError: The address space does not suffice.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < RESERVED_BYTES or sys.platform != "linux":
        return np.zeros(shape, dtype)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"{size:,} bytes") from error
    return np.frombuffer(pages, dtype).reshape(shape)


def release_pages(*arrays: NDArray[Any]) -> None:
    """Return the memory of arrays that are on disk to the operating system; their values stay.

    The next access reads a page again, from the cache of the file system or from disk.

    Args:
        arrays: Arrays, of which those in memory are left alone.
    """
    for array in arrays:
        mapped: Any = array
        while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
            mapped = mapped.base
        # changes of a private mapping would be lost
        if isinstance(mapped, np.memmap) and mapped.mode == "r+":
            pages: Any = mapped.base
            while isinstance(pages, np.ndarray):
                pages = pages.base
            if hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)


class GrowingColumn:
    """A growing int64 array, resized in place if possible, on disk if large."""

    def __init__(self) -> None:
        """Start without rows."""
        self._room: Int = np.empty(0, np.int64)
        self._size = 0
        self._file: IO[bytes] | None = None

    def extend(self, part: Int) -> None:
        """Append rows.

        Args:
            part: The rows (B,).

        Raises:
            InfeasibleError: The disk is full.
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
                # no view exists before `whole` is called
                self._room.resize(max(size, self._room.shape[0] * 5 // 4), refcheck=False)
            self._room[self._size : size] = part
        self._size = size

    def whole(self) -> Int:
        """Return the array without spare capacity; nothing may be appended afterwards."""
        if self._file is not None:
            with self._file, _report_full_disk():
                return _mapped(self._file, self._size, np.dtype(np.int64))
        self._room.resize(self._size, refcheck=False)
        return self._room


def _append(file: IO[bytes], part: Int) -> None:
    with _report_full_disk():
        file.write(np.ascontiguousarray(part).data)


def _mapped(file: IO[bytes], rows: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the content of a scratch file as an array (rows,); the file may then be closed."""
    file.flush()
    # a plain array, so that compiled code for in-memory arrays accepts it
    return np.asarray(np.memmap(file, dtype, "r+", shape=(rows,)))


def _scratch_file() -> IO[bytes]:
    """Return a new unlinked file in the user's cache folder; it is freed when closed."""
    folder = user_folder("cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise InfeasibleError(
            f"cannot write temporary arrays to {folder}: {error.strerror}",
            advice=(f"set {home_variable()} to a writable folder",),
        ) from error


@contextmanager
def _report_full_disk() -> Iterator[None]:
    """Report a full disk while scratch files are written."""
    try:
        yield
    except OSError as error:
        raise InfeasibleError(
            f"cannot store temporary arrays in {user_folder('cache')}: {error.strerror}",
            advice=(
                f"free disk space, or set {home_variable()} to another disk",
                "read fewer requests",
            ),
        ) from error
