"""What a folder declares, a row for each command; `--help` reads it and imports nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command.

    Args:
        name: As it is typed after `perfatlas`, such as "goodput spares".
        help: What it does, a line.
        run: Its function in the folder, as "module:function"; "" for a name that only holds
            others.
        example: Words after `perfatlas` that work; a message about what is missing quotes them.
        needs: Data it needs that do not come with perfatlas.
        table: Where columns of questions become columns of answers, as "module:function".
        row: Where the fields of a row become an answer, as "module:function", for commands
            without `table`. A command with either can be swept.
        is_numbered: Whether `row` takes the number of the row, from 0, before its fields.
        page: Where its answer becomes a page, as "module:function"; "" for that of all verbs.
        note: What a message about an unknown command below it adds.
    """

    name: str
    help: str
    run: str = ""
    example: str = ""
    needs: str = ""
    table: str = ""
    row: str = ""
    is_numbered: bool = False
    page: str = ""
    note: str = ""

    @property
    def line(self) -> str:
        """What --help says of it."""
        return f"{self.help} Needs {self.needs}." if self.needs else self.help


class Declaration(NamedTuple):
    """What a folder adds to perfatlas.

    Args:
        commands: Commands of the command line.
        functions: Names of its interface that are names of `perfatlas` too.
    """

    commands: tuple[Command, ...]
    functions: tuple[str, ...] = ()
