"""What a folder declares, a row for each command; `--help` reads it and imports nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command."""

    name: str  # As it is typed after `perfatlas`, such as "goodput spares"
    help: str  # What it does, a line
    # Its function in the folder, as "module:function"; "" for a name that only holds others
    run: str = ""
    # Words after `perfatlas` that work; a message about what is missing quotes them
    example: str = ""
    needs: str = ""  # Data it needs that do not come with perfatlas
    # Where columns of questions become columns of answers, or an answer with them in `cells`, as
    # "module:function"
    table: str = ""
    # Where the fields of a row become an answer, as "module:function", for commands without
    # `table`. A command with either can be swept.
    row: str = ""
    lists: bool = False  # Whether numbers may be lists divided by commas, each a row of `table`
    # Whether `row` takes the number of the row, from 0, before its fields
    is_numbered: bool = False
    # Where its answer becomes a page, as "module:function"; "" for that of all verbs
    page: str = ""
    # List in its results whose rows are the table of its answer; "" where its single values are
    rows: str = ""
    note: str = ""  # What a message about an unknown command below it adds

    @property
    def line(self) -> str:
        """What --help says of it."""
        return f"{self.help} Needs {self.needs}." if self.needs else self.help


class Declaration(NamedTuple):
    """What a folder adds to perfatlas."""

    commands: tuple[Command, ...]  # Commands of the command line
    functions: tuple[str, ...] = ()  # Names of its interface that are names of `perfatlas` too
