"""Answers on stdout: one JSON object, or text."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol

from perfatlas.commands.output.python import COLLECTED
from perfatlas.declarations import page_of
from perfatlas.quantities import InfeasibleError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.commands.flags import PageFlags
    from perfatlas.report.pages import Page

INFEASIBLE: Final = InfeasibleError.exit_code


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with non-finite numbers as null, and dates and times as ISO 8601.

    Args:
        value: Nested mappings, sequences and scalars, including TOML dates and times.

    Example:
        >>> from perfatlas.commands.output.answers import finite
        >>> finite({"rate": float("inf"), "tp": 8})
        {'rate': None, 'tp': 8}
    """
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float):  # of Python or NumPy
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return value


def print_json(value: object) -> None:
    """Write one JSON object to stdout.

    Args:
        value: JSON values; non-finite numbers become null.
    """
    if (collected := COLLECTED.get()) is not None:
        collected.append(finite(value))
        return
    sys.stdout.write(json.dumps(finite(value), indent=1, allow_nan=False) + "\n")


class AnswerFlags(Protocol):
    """How an answer is printed."""

    @property
    def json(self) -> bool:
        """Whether to print JSON."""

    @property
    def verbose(self) -> bool:
        """Whether to print all details."""


def show_answer(
    answer: Mapping[str, Any],
    *,
    output: AnswerFlags,
    set_fields: Mapping[str, Any],
    command: str = "",
    pages: PageFlags | None = None,
    page: Callable[..., Page] | None = None,
    note: str = "",
) -> int:
    """Print an answer and write its page; return the exit code, 4 if the scenario does not fit.

    Args:
        answer: The `--json` object: schema, version, command, scenario, results, ...
        set_fields: The fields that are set, for the `reproduce:` line.
        command: The verb with flags that are no fields; by default that of the answer.
        pages: Files of its page.
        page: Returns its page; by default what its folder declares.
        note: What is reported with the files.
    """
    files = {} if pages is None else pages.files()
    if output.json:
        print_json(answer)
    if files or not output.json:
        line = reproduced(command or str(answer["command"]), set_fields)
        shown = (page or page_of(str(answer["command"])))(answer, reproduce=line)
        if not output.json:
            from perfatlas.report.pages import print_page
            from perfatlas.report.text import open_terminal

            print_page(open_terminal(sys.stdout), shown, verbose=output.verbose)
        if pages is not None and files:
            from perfatlas.commands.output.page_files import write_page_files

            sys.stdout.flush()  # print the answer even if the page cannot be written
            write_page_files(pages, shown, note=note)
    return 0 if fits(answer) else INFEASIBLE


def reproduced(command: str, set_fields: Mapping[str, Any]) -> str:
    """Return the command line that reproduces an answer, with systems as the catalog spells them.

    Args:
        command: The verb with its subcommand, such as "kernel gemm", and its flags.
    """
    from perfatlas.declarations import has_fields, verb_fields
    from perfatlas.report.text import reproduce_line
    from perfatlas.scenario.fields import resolved_name

    verb = command.partition(" --")[0]
    table = verb_fields(verb) if has_fields(verb) else {}
    first = [name for name in set_fields if name in table and table[name].row.positional]
    words = [command, *(str(set_fields[name]) for name in first)]
    named = {
        name: resolved_name("systems", value)
        for name, value in set_fields.items()
        if name in table and table[name].catalog == "systems" and isinstance(value, str)
    }
    return reproduce_line(" ".join(words), {**set_fields, **named, **dict.fromkeys(first)})


def fits(answer: Mapping[str, Any]) -> bool:
    """Return whether everything that an answer places in memory fits."""
    results = answer.get("results") or {}
    return all(part.get("fits") is not False for part in results.values() if isinstance(part, dict))


def require(
    fields: Mapping[str, Any], names: Sequence[str], *, example: str, positional: Sequence[str] = ()
) -> None:
    """Refuse a command line without a required flag.

    Args:
        positional: Names that have no flag.

    Raises:
        UsageError: Flags are missing; all are listed.
    """
    flags = {name: f"--{name.replace('_', '-')}" for name in names}
    flags |= {name: name.upper() for name in positional}
    missing = [flags[name] for name in names if name not in fields]
    if missing:
        *first, last = missing
        listed = f"{', '.join(first)} and {last}" if first else last
        raise UsageError(f"missing {listed}; for example: {example}")
