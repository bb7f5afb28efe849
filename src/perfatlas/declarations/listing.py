"""The folders of verbs, and what they declare, found by listing.

A folder of `perfatlas.verbs` with a module `declaration` adds its commands and functions to
perfatlas; its module `groups` has the questions of those commands that are asked named fields, and
its module `metrics` the metrics that no other answers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.declarations.rows import Command, Declaration
    from perfatlas.quantities import MissingDependencyError
    from perfatlas.vocabulary.fields import Field
    from perfatlas.vocabulary.metrics import Metric

FOLDER: Final = "perfatlas.verbs"
LAB: Final = (
    "bench",
    "calibrate",
    "kernel inspect",
    "kernel tune",
    "validate here",
)  # of perfatlas-lab
PLAIN_PAGE: Final = "perfatlas.report.pages:results_page"


@cache
def declarations() -> dict[str, Declaration]:
    """Return what is declared, by the package that declares it."""
    return {
        package: import_module(f"{package}.declaration").DECLARATION
        for package in sorted(_declaring())
    }


def _declaring() -> set[str]:
    """Return the packages that have a declaration; no other is imported."""
    return {
        f"{FOLDER}.{found.parent.name}"
        for path in import_module(FOLDER).__path__
        for found in Path(path).glob("*/declaration.py")
    }


def commands() -> dict[str, tuple[str, Command]]:
    """Return (package, row) of every command by its name, sorted.

    Example:
        >>> from perfatlas.declarations import commands
        >>> commands()["kernel gemm"][0]
        'perfatlas.verbs.kernel'
    """
    found = {
        command.name: (package, command)
        for package, declared in declarations().items()
        for command in declared.commands
    }
    return dict(sorted(found.items()))


def command_of(words: Sequence[str]) -> str:
    """Return the command that a command line begins with, "" if there is none.

    Example:
        >>> from perfatlas.declarations import command_of
        >>> command_of(["kernel", "gemm", "--m", "64"])
        'kernel gemm'
    """
    known = commands()
    return next((name for n in (3, 2, 1) if (name := " ".join(words[:n])) in known), "")


def missing_lab(what: str) -> MissingDependencyError:
    """Return that perfatlas-lab is not installed, on which a command or an option depends.

    Args:
        what: Such as "perfatlas bench".
    """
    from perfatlas.quantities import MissingDependencyError

    return MissingDependencyError(
        f"{what} is part of perfatlas-lab, which is not installed: run make lab, or pip install ."
        " ./lab, in the clone"
    )


def lab_command(words: Sequence[str]) -> str:
    """Return the command of perfatlas-lab with which words begin, "" for none.

    Example:
        >>> from perfatlas.declarations import lab_command
        >>> lab_command(["bench", "run", "gemm"]), lab_command(["kernel", "gemm"])
        ('bench', '')
    """
    return next((name for name in LAB if list(words[: len(name.split())]) == name.split()), "")


def example_of(command: str) -> str:
    """Return a command line that works.

    Args:
        command: Such as "estimate".

    Example:
        >>> from perfatlas.declarations import example_of
        >>> example_of("goodput spares")
        'perfatlas goodput spares --nodes 2048 --node-mtbf-s 1.3e7 --repair-s 86400 --target 0.999'
    """
    return f"perfatlas {commands()[command][1].example}"


def page_of(command: str) -> Callable[..., Any]:
    """Return the function from the envelope of an answer, and its command line, to its page.

    Args:
        command: That of the answer, with the flags that name its form.

    Example:
        >>> from perfatlas.declarations import page_of
        >>> page_of("estimate --frontier").__name__
        'estimate_page'
    """
    package, row = commands().get(command.partition(" --")[0], ("", None))
    place = f"{package}.{row.page}" if row and row.page else PLAIN_PAGE
    module, _, function = place.partition(":")
    if package and _has(package, "metrics"):  # which an answer that was read has not loaded
        import_module(f"{package}.metrics")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


@cache
def rows_of(command: str) -> str:
    """Return the list in the results of an answer whose rows are its table, "" where none is.

    Example:
        >>> from perfatlas.declarations import rows_of
        >>> rows_of("profile"), rows_of("estimate --frontier")
        ('operators', '')
    """
    _, row = commands().get(command_of(command.split()), ("", None))
    return row.rows if row else ""


def function_homes() -> dict[str, str]:
    """Return the package of every function and class of `perfatlas` that a folder declares.

    Example:
        >>> from perfatlas.declarations import function_homes
        >>> function_homes()["estimate_table"]
        'perfatlas.verbs.estimate'
    """
    return {
        name: package for package, declared in declarations().items() for name in declared.functions
    }


@cache
def questions() -> dict[str, tuple[type, ...]]:
    """Return the groups of fields that each command can be asked, by its name, sorted."""
    found: dict[str, tuple[type, ...]] = {}
    for package in declarations():
        found |= _questions_of(package)
    return dict(sorted(found.items()))


def declared_metrics() -> Mapping[str, Metric]:
    """Return the table of metrics with those that each folder declares in a module `metrics`.

    They are declared when their verb answers, too; this is for who reads the whole table.
    """
    from perfatlas.vocabulary.metrics import METRICS

    for package in declarations():
        if _has(package, "metrics"):
            import_module(f"{package}.metrics")
    return METRICS


def _has(package: str, module: str) -> bool:
    return any(Path(path, f"{module}.py").exists() for path in import_module(package).__path__)


def _defaults_of(package: str, command: str) -> Mapping[str, str]:
    """Return texts of defaults that a command has instead of those of the shared rows, by field."""
    if not _has(package, "groups"):
        return {}
    found = getattr(import_module(f"{package}.groups"), "DEFAULTS", {})
    texts: Mapping[str, str] = found.get(command, {})
    return texts


def _questions_of(package: str) -> dict[str, tuple[type, ...]]:
    if not _has(package, "groups"):
        return {}
    found: dict[str, tuple[type, ...]] = import_module(f"{package}.groups").QUESTIONS
    return found


def has_fields(command: str) -> bool:
    """Return whether a command exists and can be asked fields.

    Args:
        command: Such as "estimate".

    Example:
        >>> from perfatlas.declarations import has_fields
        >>> has_fields("estimate"), has_fields("catalog"), has_fields("estimat")
        (True, False, False)
    """
    known = commands()
    return command in known and command in _questions_of(known[command][0])


@cache
def verb_fields(command: str) -> dict[str, Field]:
    """Return the fields a command can be asked, by name.

    Args:
        command: Such as "estimate".

    Example:
        >>> from perfatlas.declarations import verb_fields
        >>> verb_fields("estimate")["isl"].default
        1024
    """
    from perfatlas.vocabulary.fields import fields_of

    package, _ = commands()[command]
    found = fields_of(*_questions_of(package)[command])
    for name, text in _defaults_of(package, command).items():
        found[name] = replace(found[name], row=replace(found[name].row, default=text))
    return found


def commands_with(name: str) -> list[str]:
    """Return the commands that have a field, sorted.

    Example:
        >>> from perfatlas.declarations import commands_with
        >>> commands_with("max_gpus")
        ['search', 'search training']
    """
    return [
        command for command in commands() if has_fields(command) and name in verb_fields(command)
    ]


@cache
def text_fields() -> frozenset[str]:
    """Return the fields of all commands whose values are free text.

    Example:
        >>> from perfatlas.declarations import text_fields
        >>> "silicon_version" in text_fields(), "tp" in text_fields(), "tier" in text_fields()
        (True, False, False)
    """
    return frozenset(
        name
        for command in questions()
        for name, field in verb_fields(command).items()
        if field.type is str and not field.choices
    )


def without_defaults(command: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a scenario whose values are not their defaults.

    Args:
        command: Such as "goodput".

    Example:
        >>> from perfatlas.declarations import without_defaults
        >>> without_defaults("fleet schedule", {"num_jobs": 60, "order": "fifo", "depth": 500})
        {'num_jobs': 60}
    """
    fields = verb_fields(command)
    return {
        name: value
        for name, value in scenario.items()
        if name not in fields or fields[name].required or fields[name].default != value
    }
