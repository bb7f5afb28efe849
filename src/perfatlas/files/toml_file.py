"""TOML files: reading with messages for people, writing, and those that come with perfatlas."""

from __future__ import annotations

import numbers
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import tomli_w

from perfatlas.files.regular import check_regular
from perfatlas.quantities import InvalidSpecError

_LINE_WIDTH: Final = 100
_INDENT: Final = _LINE_WIDTH  # tomli-w writes tables that would fit on such a line as [[blocks]]
_ITEM: Final = r" +[^ \]\n][^\n]*,\n"  # of an array: TOML strings contain no line break
_INNERMOST: Final = re.compile(rf"^( *)([^\n]*)\[\n((?:{_ITEM})+) *\](,?)$", re.MULTILINE)
_INDENTATION: Final = re.compile(rf"^(?: {{{_INDENT}}})+", re.MULTILINE)
MAX_FILE_BYTES: Final = 16_777_216  # bytes


@cache
def shipped_table(name: str) -> dict[str, Any]:
    """Return a shipped TOML file; it is parsed once, so callers must not change it.

    Args:
        name: Path below the package, such as "data/formats.toml".

    Example:
        >>> from perfatlas.files import shipped_table
        >>> shipped_table("data/formats.toml")["bf16"]["weight_bits"]
        16
    """
    return tomllib.loads(shipped_text(name))


def shipped_text(name: str) -> str:
    """Return a shipped text file.

    Args:
        name: Path below the package.
    """
    return resources.files("perfatlas").joinpath(name).read_text("utf-8")


@cache
def shipped_names(folder: str) -> tuple[str, ...]:
    """Return the names of the shipped TOML files of a folder, without their ending, sorted.

    Args:
        folder: Path below the package.
    """
    files = resources.files("perfatlas").joinpath(folder).iterdir()
    names = (file.name for file in files)
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a document
    """Return a value in types that tomli-w accepts, without keys whose value is None."""
    match value:
        case Mapping():
            return {name: _plain(item) for name, item in value.items() if item is not None}
        case str() | bytes() | bool():
            return value
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value)
        case Sequence():
            return [_plain(item) for item in value]
    return value


def _on_one_line(array: re.Match[str]) -> str:
    """Return a non-nested array on one line, or unchanged if it does not fit."""
    indent, name, items, comma = array.groups()
    cells = ", ".join(item.strip(" ").removesuffix(",") for item in items.split("\n")[:-1])
    line = f"{name}[{cells}]{comma}"
    return f"{indent}{line}" if len(line) <= _LINE_WIDTH else array[0]


def format_toml(document: Mapping[str, Any]) -> str:
    """Return a document as TOML text; `tomllib.loads` restores the document.

    Arrays of tables are written as [[blocks]], and other arrays on one line if they fit, so that
    the file is easy to read and extend.

    Args:
        document: Strings, booleans, numbers, dates, sequences and mappings, nested to any depth.
            Keys with value None are omitted, as TOML has no null. NumPy scalars become numbers.

    Raises:
        TypeError: A value that TOML cannot hold (a None inside an array, bytes, ...).

    Example:
        >>> from perfatlas.files import format_toml
        >>> print(format_toml({"name": "h200", "memory": {"bandwidth": "4.8 TB/s"}}), end="")
        name = "h200"
        <BLANKLINE>
        [memory]
        bandwidth = "4.8 TB/s"
    """
    text = tomli_w.dumps(_plain(document), indent=_INDENT)
    while (shorter := _INNERMOST.sub(_on_one_line, text)) != text:
        text = shorter
    return _INDENTATION.sub(lambda match: "  " * (len(match[0]) // _INDENT), text)


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
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise InvalidSpecError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes")
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
