from __future__ import annotations

import ast
import operator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import perfatlas
from perfatlas.compiled import settling
from perfatlas.compiled.column_types import type_of
from perfatlas.compiled.columns import layout_of

SOURCES = Path(perfatlas.__file__).parent
INNER = ("numba.core", "numba.np", "numba.misc", "numba.typed", "numba._")
# what derives from the compiler's inner classes, and the base class that its interface asks for
MAY_IMPORT = {
    "compiled/direct_way.py": None,
    "compiled/column_types.py": {"numba.core.typing.templates.AttributeTemplate"},
}


class Settles(NamedTuple):
    mode: int
    size: int
    value_N: NDArray[np.int64]

    def settled(self) -> dict[str, int]:
        return {"mode": self.mode}


class Group(NamedTuple):
    inner: Settles
    name: str

    def settled(self) -> dict[str, int]:
        return {"inner.mode": self.inner.mode}


SETTLES = type_of(layout_of(Settles(2, 3, np.zeros(1, np.int64))))
ROWS = type_of(layout_of([Settles(2, 3, np.zeros(1, np.int64))]))


def test_values_derived_from_settled_fields_are_known() -> None:
    assignments: list[tuple[str, settling.Assigned]] = [
        ("rows", settling.Argument(0)),
        ("one", settling.Item("rows")),
        ("same", settling.Alias("one")),
        ("mode", settling.Field("same", "mode")),
        ("size", settling.Field("same", "size")),
        ("two", settling.Known(2)),
        ("is_two", settling.Comparison(operator.eq, ("mode", "two"))),
        ("sum", settling.Comparison(operator.add, ("mode", "two"))),
        ("larger", settling.Comparison(operator.lt, ("two", "size"))),
        ("bool", settling.Known(bool)),
        ("truth", settling.Call("bool", ("is_two",))),
    ]
    values = settling.settled_values((ROWS,), assignments)
    assert values == {"mode": 2, "two": 2, "is_two": True, "bool": bool, "truth": True}


def test_settled_fields_of_fields_are_known() -> None:
    group = layout_of(Group(Settles(2, 3, np.zeros(1, np.int64)), "a"))
    assert group == layout_of(Group(Settles(2, 4, np.zeros(9, np.int64)), "other"))
    assert group != layout_of(Group(Settles(1, 3, np.zeros(1, np.int64)), "a"))
    assignments: list[tuple[str, settling.Assigned]] = [
        ("group", settling.Argument(0)),
        ("inner", settling.Field("group", "inner")),
        ("mode", settling.Field("inner", "mode")),
        ("size", settling.Field("inner", "size")),
    ]
    assert settling.settled_values((type_of(group),), assignments) == {"mode": 2}


def test_variables_assigned_twice_are_not_known() -> None:
    assignments: list[tuple[str, settling.Assigned]] = [
        ("one", settling.Argument(0)),
        ("mode", settling.Field("one", "mode")),
        ("mode", None),
        ("two", settling.Known(2)),
        ("is_two", settling.Comparison(operator.eq, ("mode", "two"))),
    ]
    assert settling.settled_values((SETTLES,), assignments) == {"two": 2}
    assert settling.settled_values((), [("two", settling.Known(2))]) == {}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    text = path.read_text("utf-8")
    if "numba" not in text:  # nothing to find, and most files
        return found
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_one_file_derives_from_inner_classes_of_the_compiler() -> None:
    inner = {
        path.relative_to(SOURCES).as_posix(): names
        for path in SOURCES.rglob("*.py")
        if (names := {name for name in _imported(path) if name.startswith(INNER)})
    }
    assert set(inner) == set(MAY_IMPORT)
    for name, allowed in MAY_IMPORT.items():
        assert allowed is None or inner[name] == allowed
