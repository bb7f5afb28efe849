"""Totals of budget.toml: a change that raises one edits the number in the same commit."""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from typing import TYPE_CHECKING, Final

import pytest

from perfatlas import verbs
from perfatlas.declarations import commands, questions, verb_fields
from perfatlas.vocabulary.metrics import METRICS
from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUDGET: Final = tomllib.loads((ROOT / "tests/architecture/budget.toml").read_text("utf-8"))
# files of the wheel that people write: all but the generated stub and compressed data
TEXT: Final = (".py", ".pyi", ".toml", ".json", ".js", ".css", ".html", ".csv")
STUB: Final = ROOT / "src/perfatlas/__init__.pyi"


def _files(folder: str, *suffixes: str) -> Iterator[Path]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in suffixes and path != STUB and "__pycache__" not in path.parts:
            yield path


def _lines(folder: str, *suffixes: str) -> int:
    return sum(path.read_bytes().count(b"\n") for path in _files(folder, *suffixes))


def _metrics() -> int:
    """Return the number of metrics of all verbs, which are declared when their modules load."""
    for module in pkgutil.walk_packages(verbs.__path__, "perfatlas.verbs."):
        importlib.import_module(module.name)
    return len(METRICS)


def _words(folder: str) -> int:
    return sum(len(path.read_text("utf-8").split()) for path in _files(folder, ".md"))


TOTALS: Final[dict[str, Callable[[], int]]] = {
    "wheel.code_lines": lambda: _lines("src", ".py", ".pyi"),
    "wheel.code_files": lambda: len(list(_files("src", ".py", ".pyi"))),
    "wheel.text_lines": lambda: _lines("src", *TEXT),
    "validation.code_lines": lambda: _lines("validation", ".py"),
    "tests.code_lines": lambda: _lines("tests", ".py"),
    "validation.words": lambda: _words("validation"),
    "documents.words": lambda: _words("docs"),
    "interface.fields": lambda: len({name for one in questions() for name in verb_fields(one)}),
    "interface.metrics": _metrics,
    "interface.commands": lambda: sum(bool(row.run) for _, row in commands().values()),
    "interface.options_of_simulate": lambda: len(verb_fields("simulate")),
}


def test_every_total_has_a_budget() -> None:
    stated = {f"{part}.{name}" for part, names in BUDGET.items() for name in names}
    assert stated == set(TOTALS)


@pytest.mark.parametrize("name", TOTALS)
def test_totals_stay_within_the_budget(name: str) -> None:
    part, _, total = name.partition(".")
    found, most = TOTALS[name](), BUDGET[part][total]
    assert found <= most, f"{name} is {found}: make it smaller, or raise budget.toml and say why"
