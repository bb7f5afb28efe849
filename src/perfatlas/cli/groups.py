"""Verbs with sub-verbs, made of the declared commands when one of them is run."""

from __future__ import annotations

from importlib import import_module

from cyclopts import App

from perfatlas.declarations import commands


def is_group(name: str) -> bool:
    """Return whether a command has others below it.

    Example:
        >>> from perfatlas.cli.groups import is_group
        >>> is_group("goodput"), is_group("collective")
        (True, False)
    """
    return any(other.startswith(f"{name} ") for other in commands())


def __getattr__(name: str) -> App:
    """Return a verb with its sub-verbs, for the tree that names it `perfatlas.cli.groups:name`."""
    if name not in commands():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _group(name)


def _group(name: str) -> App:
    """Return a command with those below it, some of which have others below them."""
    package, own = commands()[name]
    word = name.rpartition(" ")[2]
    group = App(name=word, help=own.line, help_format="plaintext", version_flags=())
    if own.run:
        module, _, function = own.run.partition(":")
        group.default(getattr(import_module(f"{package}.{module}"), function))
    for other, (home, command) in commands().items():
        parent, _, verb = other.rpartition(" ")
        if parent != name:
            continue
        if is_group(other):
            group.command(_group(other))
        else:
            group.command(f"{home}.{command.run}", name=verb, help=command.line)
    return group
