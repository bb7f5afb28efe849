"""Cliffs of engines: which are found, which are explained, and their page."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = BENCHMARKS / "engine_limits.md"
ASKED = {"model": "maker/m", "system": "s", "mode": "static", "isl": 64}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("engine_limits")


def test_a_static_batch_falls_off_where_memory_ends(
    limits: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = {"model": "meta-llama/Llama-3.1-8B", "system": "l40s", "tp": 1, "format": None}

    def pairs(engine: str) -> list[object]:
        asked = {**deployment, "engine": engine, "mode": "static", "isl": 4096, "osl": 1}
        return [limits.Pair({**asked, "batch": None, "concurrency": None}, "batch", 16, 256)]

    monkeypatch.setattr(limits, "_pairs", pairs)
    ((cliff,), count) = limits.cliffs_of("vllm")
    assert cliff.pair.high == cliff.pair.low + 1
    assert cliff.high == 0.0 < cliff.low
    assert "the KV cache holds" in cliff.said
    assert limits.explanation(cliff).startswith("memory is full")
    assert count < 12  # bisected


@pytest.mark.parametrize(
    ("change", "rates", "said", "explained"),
    [
        (("osl", 1, 2), (10.0, 5.2), "", True),  # twice the steps
        (("osl", 1, 2), (10.0, 3.0), "", False),
        (("osl", 64, 65), (10.0, 5.2), "", False),
        (("isl", 64, 65), (10.0, 5.2), "", False),
        (("isl", 64, 65), (10.0, 5.2), "bottleneck: a limit", True),
        (("batch", 8, 9), (10.0, 0.0), "infeasible: does not fit", True),
        (("batch", 8, 9), (10.0, 0.0), "unsupported: no kernels", False),
    ],
)
def test_a_cliff_needs_an_explanation(
    limits: ModuleType,
    change: tuple[str, int, int],
    rates: tuple[float, float],
    said: str,
    explained: bool,  # noqa: FBT001
) -> None:
    cliff = limits.Cliff(limits.Pair(ASKED, *change), *rates, said)
    assert bool(limits.explanation(cliff)) is explained


def test_every_engine_has_a_section_whose_cliffs_are_explained(limits: ModuleType) -> None:
    text = PAGE.read_text("utf-8")
    assert [f"## {engine}" in text for engine in limits.ENGINES] == [True] * len(limits.ENGINES)
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    whys = [row[5].strip() for row in rows if row[0] != "| cliffs"]
    assert whys
    assert all(whys)
