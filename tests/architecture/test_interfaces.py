from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from typing import TYPE_CHECKING

from perfatlas.declarations import function_homes
from tests.architecture.sources import ROOT, tree_of

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = sorted(path.parent for path in (ROOT / "src" / "perfatlas").rglob("*/__init__.py"))
PLACE = re.compile(r"perfatlas(?:\.\w+)+:\w+")
FOLDERS = ("src", "validation", "tests", "docs", "benchmarks")


def _names_of(package: Path) -> list[str]:
    """Return the names of a public interface, imported under TYPE_CHECKING in `__init__.py`."""
    blocks = [node for node in tree_of(package / "__init__.py").body if isinstance(node, ast.If)]
    return [alias.name for block in blocks for alias in _imported(block)]


def _imported(block: ast.If) -> list[ast.alias]:
    return [alias for node in block.body for alias in getattr(node, "names", ())]


@cache
def _imports() -> dict[str, set[Path]]:
    """Return the files that import "perfatlas.package.name" or use "package.name" of an import.

    A text "perfatlas.package:name", which is imported when it is needed, counts too.
    """
    found: dict[str, set[Path]] = {}
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    for path in (*paths, ROOT / "src" / "perfatlas" / "__init__.pyi"):
        if b"perfatlas" in path.read_bytes():
            _collect(path, tree_of(path), found)
    return found


def _collect(path: Path, tree: ast.Module, found: dict[str, set[Path]]) -> None:
    modules = {"perfatlas": "perfatlas"}
    attributes = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            attributes.append(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if PLACE.fullmatch(node.value):
                found.setdefault(node.value.replace(":", "."), set()).add(path)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("perfatlas"):
            for alias in node.names:
                found.setdefault(f"{node.module}.{alias.name}", set()).add(path)
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in attributes:
        owner = modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if owner is not None:
            found.setdefault(f"{owner}.{node.attr}", set()).add(path)


def test_every_name_of_an_interface_is_used_outside_its_package() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    prose = "\n".join(page.read_text("utf-8") for page in pages)
    unused = [
        f"{_module(package)}.{name}"
        for package in PACKAGES
        for name in _names_of(package)
        if not _is_used(package, name) and f"{package.name}.{name}" not in prose
    ]
    assert unused == [], "take them out of __init__.py, or use them"


def _module(package: Path) -> str:
    return ".".join(package.relative_to(ROOT / "src").parts)


def _is_used(package: Path, name: str) -> bool:
    if function_homes().get(name) == _module(package):
        return True  # a name of `perfatlas`, which users import
    paths = _imports().get(f"{_module(package)}.{name}", ())
    return any(package not in path.parents for path in paths)


def test_every_name_of_an_interface_exists() -> None:
    missing = [
        f"{_module(package)}.{name}"
        for package in PACKAGES
        for name in _names_of(package)
        if not hasattr(importlib.import_module(_module(package)), name)
    ]
    assert missing == []


def test_no_name_of_an_interface_is_also_a_module() -> None:
    """A module of the same name would hide the name from importers of the module."""
    hidden = {
        _module(package): names
        for package in PACKAGES
        if (names := {path.stem for path in package.iterdir()} & set(_names_of(package)))
    }
    assert hidden == {}


def test_names_are_imported_from_their_home_or_from_an_interface() -> None:
    """A module does not pass on what it imports; only an `__init__.py` does."""
    places = tuple(ROOT / folder for folder in ("src", "validation"))
    passed_on = [
        f"{path.relative_to(ROOT)}: {name}"
        for name, paths in _imports().items()
        if name.rpartition(".")[2] in _names_imported_by(name.rpartition(".")[0])
        for path in paths
        if any(place in path.parents for place in places)
    ]
    assert passed_on == [], "import these from the module that defines them"


@cache
def _names_imported_by(module: str) -> frozenset[str]:
    path = ROOT.joinpath("src", *module.split(".")).with_suffix(".py")
    if not path.is_file():
        return frozenset()
    imports = [node for node in tree_of(path).body if isinstance(node, ast.ImportFrom)]
    return frozenset(alias.asname or alias.name for node in imports for alias in node.names)
