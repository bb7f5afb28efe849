from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 6


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_functions_stay_within_budget(path: Path) -> None:
    for node in _functions(ast.parse(path.read_text("utf-8"))):
        lines = _code_lines(node)
        assert lines <= MAX_FUNCTION_LINES, f"{path.name}:{node.lineno} {node.name}: {lines} lines"
        arguments = node.args
        named = len(arguments.posonlyargs) + len(arguments.args)
        named -= int(bool(arguments.args) and arguments.args[0].arg in ("self", "cls"))
        total = named + len(arguments.kwonlyargs)
        assert total <= MAX_PARAMETERS, f"{path.name}:{node.lineno} {node.name}: {total} parameters"


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if p.name == "__init__.py"],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_package_faces_only_reexport(path: Path) -> None:
    for node in ast.parse(path.read_text("utf-8")).body:
        allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign, ast.If)
        lazy_face = isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")
        assert isinstance(node, allowed) or lazy_face, f"{path}:{node.lineno} holds logic"


def test_no_room_is_a_drawer() -> None:
    rooms = {p.parent.name for p in SOURCES}
    assert not rooms & {"utils", "common", "core", "helpers", "tools"}
