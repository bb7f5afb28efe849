"""Python values as TOML text that reads back equal; the standard library only reads TOML."""

from __future__ import annotations

import datetime as dt
import json
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_LINE_WIDTH: Final = 100


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"TOML keys are strings, not {name!r}")
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    # JSON strings are TOML basic strings but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_tables(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Tell whether a value is an array of tables, which TOML writes as [[name]] blocks."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, (str, bytes))
        and len(value) > 0
        and all(isinstance(item, Mapping) for item in value)
    )


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _scalar(value: object) -> str | None:
    """Return a scalar as TOML text, or None where the value is a container."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _string(value)
        case numbers.Integral():
            return str(int(value))
        case numbers.Real():
            return _float(float(value))
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
    return None


def _array(items: Sequence[Any], indent: int) -> str:
    cells = [_inline(item) for item in items]
    line = f"[{', '.join(cells)}]"
    if len(line) + indent <= _LINE_WIDTH:
        return line
    return "[\n" + "".join(f"  {cell},\n" for cell in cells) + "]"


def _inline(value: object, indent: int = 0) -> str:
    """Return a value as it stands right of an equals sign."""
    scalar = _scalar(value)
    if scalar is not None:
        return scalar
    if isinstance(value, Mapping):
        cells = (f"{_key(k)} = {_inline(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(cells) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _array(value, indent)
    raise TypeError(f"TOML cannot hold {value!r} of type {type(value).__name__}")


def _table_lines(table: Mapping[str, Any], path: str) -> list[str]:
    """Return the lines of a table: its own values first, then its sub-tables."""
    lines = []
    for name, value in table.items():
        if value is not None and not isinstance(value, Mapping) and not _is_tables(value):
            key = _key(name)
            lines.append(f"{key} = {_inline(value, indent=len(key) + 3)}")
    for name, value in table.items():
        here = f"{path}.{_key(name)}" if path else _key(name)
        if isinstance(value, Mapping):
            lines += ["", f"[{here}]", *_table_lines(value, here)]
        elif _is_tables(value):
            for item in value:
                lines += ["", f"[[{here}]]", *_table_lines(item, here)]
    return lines


def format_toml(document: Mapping[str, Any]) -> str:
    """Return a document as TOML text; `tomllib.loads` of it gives the document back.

    Args:
        document: Strings, booleans, numbers, dates, sequences and mappings, nested at will. A key
            whose value is None is left out: TOML has no null. Numpy scalars are written as numbers.

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
    return "\n".join(_table_lines(document, "")).lstrip("\n") + "\n"
