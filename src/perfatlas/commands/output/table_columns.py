"""Columns of tables: which of them are read, refused, replaced or copied."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, nearest_name, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STATUS_COLUMNS: Final = ("warnings", "error_code", "error")  # the last columns of every answer
RESULT_PREFIX: Final = "result_"  # prefix of an answer whose name an input column has
MIN_LETTERS: Final = 5  # minimum length of names to compare for typing errors
MAX_NAMED: Final = 8  # columns that a message names
_UNIT: Final = re.compile(r"_(us|ms|s|secs?|seconds?|mins?|minutes?|h|hours?|d|days?)$")


def earlier_answer(columns: list[str], first: str) -> list[str]:
    """Return the columns of a table that belong to an earlier answer.

    Args:
        columns: Columns in file order.
    """
    status = [name for name in columns if name in STATUS_COLUMNS]
    if list(STATUS_COLUMNS[1:]) != status[-2:]:
        return status
    last = columns.index(STATUS_COLUMNS[-1])
    begins = [
        columns.index(name) for name in (RESULT_PREFIX + first, first) if name in columns[:last]
    ]
    return [*columns[begins[0] : last + 1]] if begins else status


def refuse_misspelt(columns: Iterable[str], names: set[str], path: str) -> None:
    """Refuse a column whose name is nearly that of a field without a column.

    Args:
        columns: Columns that do not belong to an earlier answer.
    """
    from perfatlas.vocabulary.fields import canonical_name

    others = sorted(names - set(columns))
    for column in columns:
        if column in names:
            continue
        plain = re.sub(r"[\s-]+", "_", column.strip().casefold())
        if ours := canonical_name(plain, others):
            raise InvalidSpecError(
                f"{path}: column {repr_for_error(column)} would be ignored; perfatlas calls it"
                f" {ours!r}"
            )
        for name in others:
            if _is_nearly(plain, name):
                raise InvalidSpecError(
                    f"{path}: column {repr_for_error(column)} would be ignored; did you mean"
                    f" {name!r}?"
                    " If not, rename it to something less similar"
                )


def _is_nearly(column: str, name: str) -> bool:
    """Return whether a column name is a field name except for case, plural, unit or one typo."""
    if name in (column, column + "s"):
        return True
    if _UNIT.search(name) and _UNIT.sub("", column) == _UNIT.sub("", name):
        return True
    if len(name) < MIN_LETTERS or column[:1] != name[:1]:
        return False
    same = _leading(column, name)
    column, name = column[same:][::-1], name[same:][::-1]
    same = _leading(column, name)
    column, name = column[same:], name[same:]
    return max(len(column), len(name)) < 2 or (len(name) == 2 and column == name[::-1])


def _leading(text: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = zip(text, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def with_column(error: str, unread: Mapping[str, str]) -> str:
    """Return a row's error, with ignored columns that may be misspelt required fields.

    Args:
        unread: Ignored columns by their names in lower case.
    """
    nearest = {name: nearest_name(name, unread) for name in re.findall(r"(\w+) is required", error)}
    status = [
        f"; column {unread[near]!r} is ignored; did you mean {missing!r}?"
        for missing, near in nearest.items()
        if near is not None
    ]
    return error + "".join(status)


def refuse_unread(columns: Sequence[str], known: Iterable[str], path: str, command: str) -> None:
    """Refuse a table of which no column is a field, and say what may have gone wrong.

    Args:
        columns: Columns that do not belong to an earlier answer.

    Raises:
        InvalidSpecError: No column is a field.
    """
    from perfatlas.files import separator_hint

    names = sorted(known)
    if set(columns) & set(names):
        return
    hint = separator_hint(columns)
    if not hint:
        hint = f"; columns are named like flags, such as {', '.join(names[:3])}: `perfatlas"
        hint += f" {command} --help` lists all"
    raise InvalidSpecError(
        f"{path}: no column is a field of {command} (found {named_columns(columns)}){hint}"
    )


def named_columns(columns: Sequence[str]) -> str:
    """Return columns for a message.

    Example:
        >>> from perfatlas.commands.output.table_columns import named_columns
        >>> named_columns(["id", "note"])
        "'id', 'note'"
    """
    named = ", ".join(repr_for_error(name) for name in columns[:MAX_NAMED])
    left_out = len(columns) - MAX_NAMED
    return named + (f" and {left_out} more" if left_out > 0 else "")
