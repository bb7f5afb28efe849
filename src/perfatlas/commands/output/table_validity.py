"""Rows of a table that no file can hold, which have an error instead of an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Part = tuple[int, Mapping[str, Sequence[Any]]]  # number of the next rows, and their answers

INVALID: Final = InvalidSpecError.error_code


def invalid_rows(block: Mapping[str, Any], names: Iterable[str]) -> dict[int, str]:
    """Return the errors of rows of JSON values with text that cannot be encoded.

    Args:
        names: Columns that are read or written.

    Example:
        >>> from perfatlas.commands.output.table_validity import invalid_rows
        >>> list(invalid_rows({"tag": ["a", chr(0xD83D)]}, ["tag"]))
        [1]
    """
    problems: dict[int, str] = {}
    for name in names:
        for row, cell in enumerate(block[name]):
            if row not in problems and _has_lone_surrogate(cell):
                problems[row] = (
                    f"{name}: the text has a lone surrogate (half of a \\ud83d\\ude00 pair), which"
                    " is not valid Unicode; write the character or the whole pair"
                )
    return problems


def with_invalid(
    parts: Iterator[Part], valid: Sequence[int], invalid: Mapping[int, str], rows: int
) -> Iterator[Part]:
    """Yield the answers of the valid rows of a block, with the errors of the others between."""
    if not invalid:
        yield from parts
        return
    done = answered = 0
    for count, answers in parts:
        indices = valid[answered : answered + count]
        answered += count
        end = indices[-1] + 1
        yield end - done, _scattered(answers, indices, invalid, (done, end))
        done = end
    if done < rows:
        yield rows - done, _scattered({}, (), invalid, (done, rows))


def _scattered(
    answers: Mapping[str, Sequence[Any]],
    rows: Sequence[int],
    invalid: Mapping[int, str],
    span: tuple[int, int],
) -> dict[str, list[Any]]:
    """Return columns of the rows of a span: the answers at their places, errors elsewhere."""
    size = span[1] - span[0]
    columns: dict[str, list[Any]] = {
        name: [None] * size for name in dict.fromkeys((*answers, "error_code", "error"))
    }
    for name, cells in answers.items():
        for index, cell in zip(rows, cells, strict=True):
            columns[name][index - span[0]] = cell
    for row in range(*span):
        if row in invalid:
            columns["error_code"][row - span[0]] = INVALID
            columns["error"][row - span[0]] = invalid[row]
    return columns


def _has_lone_surrogate(cell: object) -> bool:
    """Return whether a JSON value has text that cannot be encoded."""
    if isinstance(cell, (dict, list)):
        cell = json.dumps(cell, ensure_ascii=False)
    if not isinstance(cell, str) or cell.isascii():
        return False
    try:
        cell.encode()
    except UnicodeEncodeError:
        return True
    return False
