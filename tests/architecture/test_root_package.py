"""The functions of `perfatlas` are for its users: inside the package, a verb calls no verb."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.sources import ROOT, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "src" / "perfatlas"
NAMES = re.compile(rb"import perfatlas\b|from perfatlas import")
ADVICE = (
    "Modules of perfatlas import no function of `perfatlas`, since a verb calls no verb: a command"
    " imports the function of its own folder, and what two verbs need moves below the verbs, to"
    " scenario, answer, report or studies."
)


def _root_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each import of the root package, or of one of its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                binds = alias.name if alias.asname else alias.name.partition(".")[0]
                if binds == "perfatlas":
                    yield node.lineno, f"import {alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module == "perfatlas":
            for alias in node.names:
                module = PACKAGE / alias.name
                if not (module.is_dir() or module.with_suffix(".py").is_file()):
                    yield node.lineno, f"from perfatlas import {alias.name}"


def test_no_module_imports_the_functions_of_perfatlas() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if NAMES.search(path.read_bytes())
        for line, text in _root_imports(tree_of(path))
    ]
    assert found == [], ADVICE


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("import perfatlas", 1),
        ("import perfatlas as verbs", 1),
        ("import perfatlas.scenario", 1),
        ("from perfatlas import estimate, hardware", 1),
        ("def answer():\n    import perfatlas", 1),
        ("from perfatlas import hardware, version", 0),
        ("import perfatlas.hardware as hardware", 0),
        ("from perfatlas.verbs.train import train", 0),
    ],
)
def test_imports_of_subpackages_are_no_imports_of_functions(source: str, refused: int) -> None:
    assert len(list(_root_imports(ast.parse(source)))) == refused
