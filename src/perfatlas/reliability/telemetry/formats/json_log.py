"""A log of JSON objects: one per line (.jsonl, .ndjson), or a list in one document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import repr_for_error
from perfatlas.reliability.telemetry.reading import LogRecord, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.telemetry.reading import LogFile

_ENDINGS: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_BY_LINE: Final = "files with one object per line must end in .jsonl or .ndjson (also .gz)"
# The headers of tables that `kubectl get` prints, and what they list.
_TABLES: Final = {"LAST SEEN TYPE": "events", "NAME STATUS": "nodes", "NAME READY": "pods"}
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _decoded(text: str) -> object:
    """Return the value of a text."""
    value = _DECODER.decode(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_table(file: LogFile, text: str) -> None:
    """Raise for a text that begins with a table of kubectl."""
    header = " ".join(text[:400].split()).removeprefix("NAMESPACE ")
    listed = next((listed for names, listed in _TABLES.items() if header.startswith(names)), None)
    if listed is not None:
        problem = f"the table that kubectl prints, without dates; record with kubectl get {listed}"
        raise refuse(file.path, 0, f"{problem} -o json, for all namespaces with -A")


def _document(file: LogFile, key: str) -> Iterator[tuple[int, object]]:
    """Yield number and value of the items of a list, under `key` or the whole document."""
    blocks = file.blocks()
    head = next(blocks, "")
    _refuse_table(file, head)
    try:
        value = _decoded("".join((head, *blocks)) if head.lstrip()[:1] in "{[" else head)
    except (ValueError, RecursionError) as problem:
        message = f"not JSON, or the file is truncated ({problem}); {_BY_LINE}"
        raise refuse(file.path, 0, message) from problem
    items = value.get(key) if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        raise refuse(file.path, 0, f"no list {key!r} in the document; {_BY_LINE}")
    file.tally.total = len(items)
    yield from enumerate(items, 1)


def _lines(file: LogFile) -> Iterator[tuple[int, object]]:
    """Yield number and value of each line that is not blank."""
    for line in file.lines():
        if not line.text.strip():
            file.tally.ignore("blank", line.number)
            continue
        _refuse_table(file, line.text)
        try:
            value = _decoded(line.text)
        except (ValueError, RecursionError) as problem:
            why = "not JSON" if line.ended else "the file is truncated in this line, or not JSON"
            message = f"{why} ({problem}): {repr_for_error(line.text)}"
            raise refuse(file.path, line.number, message) from problem
        if value is None:
            raise refuse(file.path, line.number, "null is not an object {...}")
        yield line.number, value


def json_records(file: LogFile, key: str) -> Iterator[LogRecord]:
    """Yield the objects of a log; other lines are counted.

    Args:
        key: Name of the list, for a log in one document.
    """
    by_line = Path(file.path).name.lower().endswith(_ENDINGS)
    unit = "line" if by_line else "record"
    file.tally.unit = f"{unit}s"
    for number, value in _lines(file) if by_line else _document(file, key):
        if not isinstance(value, Mapping):
            problem = f"{repr_for_error(value)} is not an object {{...}}"
            raise refuse(file.path, number, problem, unit=unit)
        yield LogRecord(file.path, number, value, unit)
