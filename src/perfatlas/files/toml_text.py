"""Writing of Python values as TOML; the standard library only reads TOML."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tomli_w

_LINE_WIDTH: Final = 100
_INDENT: Final = _LINE_WIDTH  # tomli-w writes tables that would fit on such a line as [[blocks]]
_ITEM: Final = r" +[^ \]\n][^\n]*,\n"  # of an array: TOML strings contain no line break
_INNERMOST: Final = re.compile(rf"^( *)([^\n]*)\[\n((?:{_ITEM})+) *\](,?)$", re.MULTILINE)
_INDENTATION: Final = re.compile(rf"^(?: {{{_INDENT}}})+", re.MULTILINE)


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
    return _INDENTATION.sub(lambda found: "  " * (len(found[0]) // _INDENT), text)
