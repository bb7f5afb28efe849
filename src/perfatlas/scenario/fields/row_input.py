"""Rows of named fields as input: a file, an array of a TOML file, or JSON text."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from perfatlas.files import read_table
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Sequence


def input_rows(given: Any, name: str, wanted: str, most: int) -> tuple[Sequence[Any], str]:  # noqa: ANN401 - whatever a person wrote
    """Return unchecked rows, and a description of their origin.

    Args:
        given: A list, JSON text that starts with [ or {, or a path to CSV, Parquet or JSON Lines.
        wanted: Description of the expected value, such as "a list of events".
    """
    where, rows = name, given
    if isinstance(given, str) and given.lstrip().startswith(("[", "{")):
        try:
            rows = json.loads(given, object_pairs_hook=_each_once)
        except RecursionError:
            raise InvalidSpecError(f"{name} is JSON nested too deeply to be read") from None
        except ValueError as problem:  # including a number with too many digits
            raise InvalidSpecError(f"{name} is not JSON: {problem}") from None
    elif isinstance(given, str):
        where = given
        rows = _rows_of(given)
    if not isinstance(rows, (list, tuple)) or len(rows) > most:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(str(given))}: expected a file, or {wanted}"
        )
    return rows, where


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refused if a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"{twice!r} is set twice")
    return found


def _rows_of(path: str) -> Sequence[Any]:
    """Return the rows of a file, without empty cells."""
    table = read_table(path)
    columns = {name: table.cells(name) for name in table.columns}
    return [
        {name: cells[index] for name, cells in columns.items() if cells[index] not in (None, "")}
        for index in range(table.rows)
    ]
