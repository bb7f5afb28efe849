"""From the flags of a form of goodput to its answer: one, or a table of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas.commands.output import answer_rows, print_json, require, show_summary, wants_table
from perfatlas.vocabulary.fields import fields_asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.answer import Answer
    from perfatlas.commands.flags import OutputFlags


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A form of goodput.

    Args:
        command: As it is typed.
        face: From named fields to an answer.
        first: The first column of its answers in a table, of which others may be questions.
        needed: Fields it cannot do without.
        example: A command line that works.
    """

    command: str
    face: Callable[..., Answer]
    first: str
    needed: tuple[str, ...] = ()
    example: str = ""


def answer_of(verb: Verb, asked: dict[str, Any], output: OutputFlags) -> int:
    """Return the exit code of one answer, or of a table that is answered row by row.

    Args:
        verb: The form of goodput.
        asked: The flags that were given.
        output: Where the answer goes.
    """
    if wants_table(output):
        return answer_table_of(verb, asked, output)
    require(asked, verb.needed, example=verb.example)
    return show_goodput(verb.face(**asked), asked, as_json=output.json)


def answer_table_of(verb: Verb, asked: dict[str, Any], output: OutputFlags) -> int:
    """Return the exit code of a table that is answered row by row.

    Args:
        verb: The form of goodput.
        asked: Flags given beside --table.
        output: Names both files.
    """
    summary = answer_rows(
        verb.face, output, asked=asked, names=fields_asked(verb.command), first=verb.first
    )
    return show_summary(verb.command, summary, asked=asked, as_json=output.json)


def show_goodput(answer: Answer, asked: dict[str, Any], *, as_json: bool) -> int:
    """Write an answer of any form of goodput and return the exit code.

    Args:
        answer: The answer.
        asked: What was asked, for the `reproduce:` line.
        as_json: Whether one JSON object is printed.
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
