"""The tree of verbs; each verb's module is imported when the verb is run."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from perfatlas.cli.groups import is_group
from perfatlas.declarations import commands
from perfatlas.version import __version__

HELP: Final = """How fast, why, what if, how sure: deep-learning performance from model to GPU.

Every computing verb takes --json. \
--debug prints the traceback of a defect; --no-color or NO_COLOR=1 turns colours off."""


app: Final = App(
    name="perfatlas",
    help=HELP,
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for name, (package, command) in commands().items():
    parent, _, verb = name.rpartition(" ")
    if is_group(name):
        app.command(f"perfatlas.cli.groups:{name}", name=name, help=command.line)
    elif not parent:
        app.command(f"{package}.{command.run}", name=verb, help=command.line)
app.command(
    "perfatlas.cli.completion:completion",
    name="completion",
    help="Print a completion script to load yourself; --install-completion sets it up for good.",
)
app.command(
    "perfatlas.cli.completion:install_completion",
    name="--install-completion",
    help="Install completion for your shell and load it from its start-up file.",
    group="Parameters",
)
