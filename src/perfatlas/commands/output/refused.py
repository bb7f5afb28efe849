"""What a refused command line writes: a message, with --json also an object, and the exit code."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cyclopts import (
    CycloptsError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from perfatlas.commands.output import refusal
from perfatlas.declarations import command_of
from perfatlas.quantities import InfeasibleError, PerfatlasError, UsageError
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTED: Final = re.compile(r"[^,\s{]+(,[^,\s{]+)+")
KINDS_FIRST: Final = ("show", "new", "check")  # actions of a catalog, which its kind precedes


class Refused(NamedTuple):
    """A refused command line."""

    text: str  # The message, without the name of the program
    exit_code: int
    answer: dict[str, Any]  # The object that --json prints in place of an answer


def refused_command(problem: CycloptsError | PerfatlasError, words: Sequence[str]) -> Refused:
    """Return what a refused command line writes.

    Args:
        words: The arguments after `perfatlas`.

    Example:
        >>> from perfatlas.commands.output import refused_command
        >>> from perfatlas.quantities import InvalidSpecError
        >>> words = ["kernel", "gemm", "--json"]
        >>> refused_command(InvalidSpecError("m is missing"), words).answer["error"]
        {'code': 'invalid', 'exit_code': 3, 'message': 'm is missing'}
    """
    from perfatlas.answer import SCHEMA
    from perfatlas.declarations import commands, lab_command, missing_lab

    lab = isinstance(problem, UnknownCommandError) and lab_command(words)
    if lab and lab not in commands():
        problem = missing_lab(f"perfatlas {lab}")
    if isinstance(problem, PerfatlasError):
        text = refusal.refusal_text(problem).removeprefix("perfatlas: ").rstrip("\n")
        kind, message = type(problem), str(problem)
    else:
        text = message = _usage_text(problem, words)
        kind = UsageError
    error: dict[str, Any] = {"code": kind.error_code, "exit_code": kind.exit_code}
    error["message"] = message
    answer: dict[str, Any] = {"schema": SCHEMA, "version": __version__}
    answer["command"] = command_of(words)
    if isinstance(problem, InfeasibleError):
        error["advice"] = list(problem.advice)
        answer |= problem.answer
    return Refused(text, kind.exit_code, {**answer, "error": error})


def _usage_text(problem: CycloptsError, words: Sequence[str]) -> str:
    """Return the message of an error of the library that reads command lines."""
    if isinstance(problem, UnknownOptionError):
        return refusal.unknown_option_text(problem, command_of(words))
    if isinstance(problem, UnusedCliTokensError):
        return refusal.unexpected_argument_text(problem.unused_tokens or [])
    text = str(problem).strip()
    if words[:1] == ["catalog"] and words[1:2] and words[1] in KINDS_FIRST:
        rest = " ".join(words[1:])
        return f"{text.rstrip('.')}. The catalog comes first: perfatlas catalog systems {rest}"
    if isinstance(problem, UnknownCommandError):
        instead = (
            f'Unknown command "{words[0]}". {refusal.VERBS[words[0]]}.'
            if words[0] in refusal.VERBS
            else ""
        )
        return instead or f"{text} {_note(words)}".rstrip()
    hint = _table_hint(words)
    return f"{text.rstrip('.')}. {hint}" if hint else text


def _table_hint(words: Sequence[str]) -> str:
    """Return the command that answers each of several values of a flag, "" without any."""
    from perfatlas.declarations import commands, has_fields

    name = command_of(words)
    words = [part for word in words for part in _split(word)]
    index = next((n for n, word in enumerate(words) if LISTED.fullmatch(word)), 0)
    if not index or not has_fields(name) or not words[index - 1].startswith("--"):
        return ""
    if not (commands()[name][1].table or commands()[name][1].row):
        return ""
    field = words[index - 1][2:].replace("-", "_")
    rows = "\\n".join((field, *words[index].split(",")))
    rest = shlex.join([*words[: index - 1], *words[index + 1 :]])
    return (
        f"For several values, give a table: printf '{rows}\\n' > rows.csv; perfatlas {rest}"
        " --table rows.csv --output answers.csv"
    )


def _split(word: str) -> list[str]:
    """Return a flag and its value as two words."""
    return word.split("=", 1) if word.startswith("--") else [word]


def _note(words: Sequence[str]) -> str:
    """Return what the command that words begin with adds to a message about an unknown one."""
    from perfatlas.declarations import commands

    name = command_of(words)
    return commands()[name][1].note if name else ""
