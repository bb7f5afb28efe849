"""The tree of commands; the module of a command is imported when it runs."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from perfatlas.cli.groups import is_group
from perfatlas.declarations import commands
from perfatlas.version import __version__

HELP: Final = """Performance, bottlenecks and reliability of deep-learning systems.

All computing commands accept --json; --help-all lists every option of a command. \
--debug prints the traceback of an internal error; --no-color or NO_COLOR=1 disables colors."""


app: Final = App(
    name="perfatlas",
    help=HELP,
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for name, (package, command) in commands().items():
    if " " in name:
        continue
    if is_group(name):
        app.command(f"perfatlas.cli.groups:{name}", name=name, help=command.line)
    else:
        app.command(f"{package}.{command.run}", name=name, help=command.line)
app.command(
    "perfatlas.cli.completion:completion",
    name="completion",
    help="Print a shell completion script; --install-completion installs it.",
)
app.command(
    "perfatlas.cli.completion:install_completion",
    name="--install-completion",
    help="Install shell completion and load it from the shell's startup file.",
    group="Parameters",
)
