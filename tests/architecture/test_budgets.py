from __future__ import annotations

import ast
import importlib.util
from collections import Counter

import pytest

from tests.architecture.sources import ROOT, tree_of

SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "validation").rglob("*.py")])
MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 100
MAX_MODULES = 25
LISTED = ("families",)
COMPILED = "perfatlas.lab.kernels.sources."  # what Triton compiles, and what imports it
HAS_TRITON = importlib.util.find_spec("triton") is not None


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


def test_no_file_is_long() -> None:
    lines = {str(p.relative_to(ROOT)): p.read_text("utf-8").count("\n") for p in SOURCES}
    long = {name: count for name, count in lines.items() if count > MAX_FILE_LINES}
    assert long == {}, f"longer than {MAX_FILE_LINES} lines: split the story"


def test_functions_stay_within_budget() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {_code_lines(node)} lines"
        for path in SOURCES
        for node in _functions(tree_of(path))
        if _code_lines(node) > MAX_FUNCTION_LINES
    ]
    assert found == [], f"at most {MAX_FUNCTION_LINES} lines"


def test_package_interfaces_only_reexport() -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} holds logic"
        for path in SOURCES
        if path.name == "__init__.py"
        for node in tree_of(path).body
        if not isinstance(node, allowed) and not _is_lazy_import(node)
    ]
    assert found == []


def _is_lazy_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")


@pytest.mark.study
def test_every_module_can_be_imported() -> None:
    sources = [path.relative_to(ROOT).with_suffix("").parts for path in SOURCES]
    names = [".".join(parts[parts[0] == "src" :]) for parts in sources]
    for name in names:
        if name.endswith("__main__") or (name.startswith(COMPILED) and not HAS_TRITON):
            continue
        importlib.import_module(name)
    assert len(names) > 900


def test_packages_have_a_subject() -> None:
    names = {p.parent.name for p in SOURCES}
    assert not names & {"utils", "common", "core", "helpers", "tools"}


def test_no_folder_is_crowded() -> None:
    """Folders whose modules are found by listing may hold any number of them."""
    modules = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    crowded = {
        str(folder.relative_to(ROOT)): count
        for folder, count in modules.items()
        if count > MAX_MODULES and folder.name not in LISTED
    }
    assert crowded == {}, f"more than {MAX_MODULES} modules: divide the folder by subject"
