"""Atomic file writes: a file is replaced completely or left unchanged."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator


def _target_of(path: Path) -> Path:
    """Return the path to write to: links are followed, devices and folders are refused."""
    target = Path(os.path.realpath(path))
    try:
        regular = stat.S_ISREG(target.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        regular = True  # a new file
    except (OSError, ValueError) as problem:  # such as a name that is too long, or a NUL in it
        reason = getattr(problem, "strerror", None) or problem
        raise InvalidSpecError(f"cannot write '{path}': {reason}") from problem
    if not regular:
        raise InvalidSpecError(f"cannot write '{path}': it is not a regular file")
    if not target.parent.is_dir():
        raise InvalidSpecError(
            f"cannot write '{path}': folder '{target.parent}' does not exist; create it first"
        )
    return target


def check_writable(path: str | Path) -> None:
    """Fail early if a path cannot be written, before computing the result to store there.

    Args:
        path: The file to write later.

    Raises:
        InvalidSpecError: The folder does not exist or may not be written, or `path` is a folder or
            a device.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.files import check_writable
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     check_writable(Path(folder) / "a.toml")
    """
    target = _target_of(Path(path))
    if not os.access(target.parent, os.W_OK):
        raise InvalidSpecError(
            f"cannot write '{path}': folder '{target.parent}' may not be written"
        )


def _sync_to_disk(path: Path, *, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(scratch: Path, target: Path) -> None:
    _sync_to_disk(scratch, flags=os.O_RDWR)
    if target.exists():
        scratch.chmod(target.stat().st_mode & 0o7777)
    scratch.replace(target)
    # The rename is stored in the folder; without this sync a power failure can undo it.
    _sync_to_disk(target.parent, flags=os.O_RDONLY)


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder that becomes `path` when the block succeeds.

    The temporary file is flushed to disk and renamed over `path`. If the block raises or the disk
    is full, the temporary file is removed, and an existing `path` keeps its content and mode.

    Args:
        path: The file to write; links are followed.

    Yields:
        An existing, empty file to write to.

    Raises:
        InvalidSpecError: The folder does not exist, may not be written or is full, or `path` is a
            folder or a device.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.files import atomic_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with atomic_file(Path(folder) / "answer.txt") as scratch:
        ...         _ = scratch.write_text("42")
        ...     (Path(folder) / "answer.txt").read_text()
        '42'
    """
    target = _target_of(Path(path))
    scratch = target.with_name(f".{target.name[:100]}.{os.urandom(6).hex()}.tmp")
    try:
        # The umask applies to 0o666, as for any new file.
        os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield scratch
        _publish(scratch, target)
    except OSError as problem:
        raise InvalidSpecError(f"cannot write '{path}': {problem.strerror or problem}") from problem
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write `content` to `path` atomically.

    Args:
        path: The file to write; links are followed.
        content: Text (written as UTF-8) or bytes.

    Raises:
        InvalidSpecError: The folder does not exist, may not be written or is full.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.files import write_atomic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_atomic(Path(folder) / "a.toml", "tp = 8")
        ...     (Path(folder) / "a.toml").read_text()
        'tp = 8'
    """
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path) as scratch:
        scratch.write_bytes(data)
