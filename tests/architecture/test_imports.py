"""Imports that the contracts of pyproject.toml cannot name."""

from __future__ import annotations

import ast
from typing import Final

from tests.architecture.sources import ROOT, tree_of

SOURCE: Final = ROOT / "src"
NUMERICAL: Final = {"numpy", "scipy"}


def test_validation_imports_interfaces_of_packages() -> None:
    deep = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in sorted((ROOT / "validation").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfatlas.")
        if node.module != "perfatlas.interface"
        and not SOURCE.joinpath(*(node.module or "").split(".")).is_dir()
    ]
    assert deep == [], "export the names in the __init__.py of their package"


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the packages that an import names."""
    names = (
        [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    )
    return {name.partition(".")[0] for name in names}


def test_verbs_compute_nothing() -> None:
    """Every module of a verb is read, inside functions and under TYPE_CHECKING too."""
    paths = sorted((SOURCE / "perfatlas" / "verbs").rglob("*.py"))
    named = [path for path in paths if any(n in path.read_text("utf-8") for n in NUMERICAL)]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in named
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom) and NUMERICAL & _packages(node)
    ]
    assert len(paths) > 50
    assert found == [], "move formulas to the package of their subject"
