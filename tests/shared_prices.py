"""Step prices that the tests of a process share: they are most of the time of a short simulation.

A table is found under what decides it: the fields of the scenario and the limits, as within one
answer, and the text of an engine or system that is a file. Tests that patch anything share none:
what they change may decide a price. Tables are checked where they are made, and the processes that
answer golden questions make their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

MAX_TABLES: Final = 24  # tables of a process, some MB each; the least recently used goes first
PRICES: Final[dict[Any, Any]] = {}
MARKS: Final = (".toml", ".json", "/")  # of a file; models of the catalog have a "/" too


def sharing(table: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that prices steps, with the tables of earlier calls.

    Args:
        table: The function; takes the scenario first, and known tables last.
    """

    @wraps(table)
    def priced(scenario: Any, *others: Any) -> Any:  # noqa: ANN401 - as the function it wraps
        texts = _files(vars(scenario))
        if texts is None:
            return table(scenario, *others)
        known = others[-1]
        for (of_files, key), one in PRICES.items():
            if of_files == texts:
                known.setdefault(key, one)
        found = table(scenario, *others)
        for key, one in known.items():
            if one is found:
                PRICES.pop((texts, key), None)
                PRICES[texts, key] = one
        while len(PRICES) > MAX_TABLES:
            del PRICES[next(iter(PRICES))]
        return found

    return priced


def _files(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the texts of the files that fields name, None for what is read in another way."""
    texts = []
    for value in fields.values():
        if not isinstance(value, str) or not any(mark in value for mark in MARKS):
            continue
        if Path(value).is_file():
            texts.append(Path(value).read_text("utf-8"))
        elif Path(value).is_dir() or "{" in value or value.startswith((".", "/")):
            return None
    return tuple(texts)
