"""Help of a command with many options: the common ones and an example, unless all are wanted."""

from __future__ import annotations

import inspect
import textwrap
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cyclopts.help import DefaultFormatter

from perfatlas.commands.flags.output import FURTHER
from perfatlas.declarations import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cyclopts import App
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

    from perfatlas.commands.flags.from_fields import FlagsSignature


class CommonPanels(DefaultFormatter):
    """Draws all panels but that of the further output options."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Draw a panel."""
        if panel.title != FURTHER.name:
            super().__call__(console, options, panel)


def print_help(
    app: App, words: Sequence[str], signature: FlagsSignature, *, complete: bool
) -> None:
    """Print the help of a command: its common options and an example.

    Args:
        app: The tree of commands.
        words: The command line without --help.
        signature: Flags of the command.
        complete: Print every option.
    """
    example = commands()[signature.verb][1].example
    parts = textwrap.wrap(f"perfatlas {example}", 74, break_on_hyphens=False)
    lines = ["Example:", " \\\n      ".join([f"  {parts[0]}", *parts[1:]])] if example else []
    with nullcontext(0) if complete else signature.common() as left_out:
        command = app.parse_commands(words)[1][-1]
        if left_out:
            lines.append(f"--help-all shows {left_out} more fields and all output options.")
            command.help_formatter = CommonPanels()
        command.help_epilogue = "\n".join(lines) or None
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if kinds <= {inspect.Parameter.KEYWORD_ONLY}:  # saves examining all flags for this line
            command.usage = f"Usage: perfatlas {signature.verb} [OPTIONS]"
        try:
            app.help_print(words)
        finally:
            command.help_epilogue = command.help_formatter = command.usage = None
