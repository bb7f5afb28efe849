"""Reading of the user's TOML files, with helpful errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from perfatlas.files.regular import check_regular
from perfatlas.quantities import InvalidSpecError

LARGEST_FILE: Final = 16_777_216  # bytes


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return a TOML file as tables.

    Raises:
        InvalidSpecError: The file cannot be read, is too large, or is not TOML in UTF-8.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.files import read_toml
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.toml"
        ...     _ = path.write_text("tp = 8")
        ...     read_toml(path)
        {'tp': 8}
    """
    check_regular(path)
    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise InvalidSpecError(f"{path} is larger than {LARGEST_FILE:,} bytes")
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as problem:
        raise InvalidSpecError(f"file {path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        line = problem.object.count(b"\n", 0, problem.start) + 1
        raise InvalidSpecError(
            f"{path} is not UTF-8 text: byte 0x{problem.object[problem.start]:02x} in"
            f" line {line}; save it as UTF-8"
        ) from problem
    except RecursionError as problem:
        raise InvalidSpecError(f"{path} is nested too deeply to be read") from problem
    except ValueError as problem:
        raise InvalidSpecError(f"{path} is not TOML: {str(problem)[:200]}") from problem
