"""Answers of the goodput commands: single, or as a table."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas.commands.output import answer_rows, print_json, require, show_summary, wants_table
from perfatlas.vocabulary.fields import verb_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.answer import Answer
    from perfatlas.commands.flags import OutputFlags


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A goodput command.

    Args:
        command: Command as typed.
        face: Function from named fields to an answer.
        first: First answer column in a table; others may also be input columns.
        needed: Required fields.
        example: A valid command line.
    """

    command: str
    face: Callable[..., Answer]
    first: str
    needed: tuple[str, ...] = ()
    example: str = ""


def answer_of(verb: Verb, asked: dict[str, Any], output: OutputFlags) -> int:
    """Return the exit code of one answer, or of a table that is answered row by row.

    Args:
        verb: The command.
        asked: The flags that are set.
        output: Output of the answer.
    """
    if wants_table(output):
        return answer_table_of(verb, asked, output)
    require(asked, verb.needed, example=verb.example)
    return show_goodput(verb.face(**asked), asked, as_json=output.json)


def answer_table_of(verb: Verb, asked: dict[str, Any], output: OutputFlags) -> int:
    """Return the exit code of a table that is answered row by row.

    Args:
        verb: The command.
        asked: Flags set beside --table.
        output: The output flags, with both files.
    """
    summary = answer_rows(
        verb.face, output, asked=asked, names=verb_fields(verb.command), first=verb.first
    )
    return show_summary(verb.command, summary, asked=asked, as_json=output.json)


def show_goodput(answer: Answer, asked: dict[str, Any], *, as_json: bool) -> int:
    """Print an answer of a goodput command; return the exit code.

    Args:
        answer: The answer.
        asked: The fields that are set, for the `reproduce:` line.
        as_json: Whether to print JSON.
    """
    told = answer.to_dict()
    if as_json:
        print_json(told)
        return 0
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.goodput.text import print_goodput

    line = reproduce_line(answer.command, asked)
    print_goodput(open_terminal(sys.stdout), told, reproduce=line)
    return 0
