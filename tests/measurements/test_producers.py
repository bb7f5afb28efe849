"""The cache key of residuals: a digest of the code that produces them, and no other."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from perfatlas.collectives import measured as collectives
from perfatlas.machines.gpu.kernels import gemm, moe
from perfatlas.machines.gpu.tiers import measured as kernels
from perfatlas.measurements.residuals import producers
from perfatlas.measurements.tables import sparse_tables

SOURCE = """
from functools import lru_cache

RATES = {"one": 1.0, "two": (2.0, 3.0)}


class Reader:
    scale = 2.0

    def read(self):
        return sum(leaf(x) for x in RATES["two"]) * self.scale


@lru_cache
def leaf(value):
    '''Return twice a value.'''
    return 2 * value  # twice


def produce():
    return Reader().read()


def other():
    return 0
"""


def digest(folder: Path, name: str, source: str) -> str:
    (folder / f"{name}.py").write_text(source)
    importlib.invalidate_caches()
    module: Any = importlib.import_module(name)
    for one in (module.Reader, module.Reader.read, module.leaf.__wrapped__, module.produce):
        one.__module__ = "perfatlas.produced"
    del sys.modules[name]
    return producers.producers_hash(module.produce)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("# twice", "# a comment", False),
        ("Return twice a value.", "Return a value twice.", False),
        ("return 0", "return 1", False),
        ("2 * value", "3 * value", True),
        ("scale = 2.0", "scale = 4.0", True),
        ("(2.0, 3.0)", "(2.0, 4.0)", True),
        ("self.scale", "self.scale / 2", True),
    ],
)
def test_only_an_edit_of_what_is_reached_changes_the_digest(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    changes: bool,  # noqa: FBT001 - a case
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = digest(tmp_path, "produced_before", SOURCE)
    after = digest(tmp_path, "produced_after", SOURCE.replace(old, new))
    assert (before != after) == changes


def changed(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:  # noqa: ANN401 - any
    plain: FunctionType = getattr(function, "__wrapped__", function)
    code = plain.__code__
    monkeypatch.setattr(plain, "__code__", code.replace(co_consts=(*code.co_consts, "changed")))


def digests() -> dict[str, str]:
    found = {name: kernels.producers.__wrapped__(name) for name in ("gemm", "moe")}
    return found | {"collectives": collectives.producers.__wrapped__()}


@pytest.mark.parametrize(
    ("function", "anew"),
    [
        (gemm._tile_s, {"gemm"}),
        (moe._fill_loads, {"moe"}),
        (sparse_tables.sparse_rows, {"gemm", "moe"}),
        (collectives.size_groups, {"collectives"}),
        (kernels.correct_rows, set()),
    ],
)
def test_residuals_are_refitted_when_their_code_changes(
    monkeypatch: pytest.MonkeyPatch,
    function: Any,  # noqa: ANN401 - any function
    anew: set[str],
) -> None:
    before = digests()
    changed(monkeypatch, function)
    after = digests()
    assert {name for name in before if before[name] != after[name]} == anew


def test_lists_read_from_data_are_part_of_the_digest() -> None:
    walk = producers._Walk(())
    walk.text_of(kernels.fit_residuals)
    while walk.ahead:
        walk.inside(walk.ahead.pop())
    assert {"formats.toml", "ungated_experts.toml"} <= walk.files
