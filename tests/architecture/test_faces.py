from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(path.parent for path in (ROOT / "src" / "perfatlas").rglob("*/__init__.py"))
FOLDERS = ("src", "tests", "docs", "benchmarks")


def _all_of(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


@cache
def _imports() -> dict[str, set[Path]]:
    """Return the files that import "perfatlas.room.name" or use "room.name" of an import."""
    found: dict[str, set[Path]] = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            _collect(path, ast.parse(path.read_text("utf-8")), found)
    return found


def _collect(path: Path, tree: ast.Module, found: dict[str, set[Path]]) -> None:
    modules = {"perfatlas": "perfatlas"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfatlas"):
            for alias in node.names:
                found.setdefault(f"{node.module}.{alias.name}", set()).add(path)
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = modules.get(node.value.id)
            if owner is not None:
                found.setdefault(f"{owner}.{node.attr}", set()).add(path)


@pytest.mark.parametrize("room", ROOMS, ids=lambda p: str(p.relative_to(ROOT / "src")))
def test_every_name_of_a_face_is_used_outside_the_room(room: Path) -> None:
    module = ".".join(room.relative_to(ROOT / "src").parts)
    names = _all_of(ast.parse((room / "__init__.py").read_text("utf-8")))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    prose = "\n".join(page.read_text("utf-8") for page in pages)
    unused = [
        name
        for name in names
        if not any(room not in path.parents for path in _imports().get(f"{module}.{name}", ()))
        and f"{room.name}.{name}" not in prose
    ]
    assert unused == [], f"{module}: take them out of __all__, or use them"
