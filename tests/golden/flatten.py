"""An answer as flat keys and scalars: numbers, truth values, nulls and names, but no sentences."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Scalar = str | int | float | bool | None

# Text, values that differ between releases, and the duration of the run.
LEFT_OUT: Final = frozenset(
    {
        *("schema", "version", "data_versions", "elapsed_s", "warnings", "assumptions", "sources"),
        *("source", "error", "command", "reproduce", "remarks", "note", "notes", "description"),
    }
)
IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_.@+:/%{}=-]{1,80}")
MAX_ENTRIES: Final = 40  # entries of a list, rows of a table; longer ones are summarised
DIGEST: Final = ".sha256"


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Scalar]]:  # noqa: ANN401 - JSON
    """Yield the scalars of a JSON value with their paths, as in `breakdown[3].time_s`.

    Args:
        value: Nested mappings, lists and scalars.
    """
    if isinstance(value, dict):
        if not value:
            yield path, "{}"
        for index, (name, inner) in enumerate(value.items()):
            if name in LEFT_OUT:
                continue
            # a key that is a sentence may be reworded; its position is kept
            key = name if IDENTIFIER.fullmatch(name) else f"~{index}"
            yield from flatten(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        yield from _of_list(value, path)
    elif not isinstance(value, str) or IDENTIFIER.fullmatch(value):
        yield path, value


def _of_list(cells: list[Any], path: str) -> Iterator[tuple[str, Scalar]]:
    if not cells:
        yield path, "[]"
    elif len(cells) <= MAX_ENTRIES:
        for index, cell in enumerate(cells):
            yield from flatten(cell, f"{path}[{index}]")
    elif all(isinstance(cell, dict) for cell in cells):
        yield f"{path}.length", len(cells)
        names = dict.fromkeys(name for cell in cells for name in cell)
        for name in names:
            yield from flatten({name: [cell.get(name) for cell in cells]}, path)
    else:
        yield from summed_up(cells, path)


def summed_up(cells: Sequence[Any], path: str) -> Iterator[tuple[str, Scalar]]:
    """Yield the summary of a long list: length, ends, extremes, sum and a hash."""
    scalars = [_written(cell) for cell in cells]
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    yield f"{path}.length", len(cells)
    yield f"{path}.numbers", len(numbers)
    yield f"{path}{DIGEST}", hashlib.sha256("\n".join(scalars).encode()).hexdigest()[:16]
    if numbers:
        yield f"{path}.first", numbers[0]
        yield f"{path}.last", numbers[-1]
        yield f"{path}.least", min(numbers)
        yield f"{path}.most", max(numbers)
        yield f"{path}.sum", math.fsum(numbers)


def _written(cell: object) -> str:
    """Return a cell as text, with whole numbers as floats."""
    if isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 2**53:
        cell = float(cell)
    return json.dumps(cell)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table that a command wrote.

    Args:
        path: CSV, JSON Lines or Parquet.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as stream:
        return [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(stream)]


def _cell(text: str) -> Scalar:
    """Return the value of a CSV cell: None, a boolean, a number or text."""
    if text in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def predicted(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predicted values of results, without intervals.

    Args:
        results: Results of an answer.
    """
    return {
        name: predicted(value) if isinstance(value, dict) else value
        for name, value in results.items()
        if not name.endswith(("_low", "_high", "_low_s", "_high_s"))
    }
