"""Goodput options without effect."""

from __future__ import annotations

from typing import Any

from perfatlas.verbs.goodput import goodput

DAY = 86400.0
JOB: dict[str, Any] = {"checkpoint_write_s": 60, "restart_s": 300}
SIMPLE: dict[str, Any] = {**JOB, "mtti_s": 28_440}
FLEET: dict[str, Any] = {**JOB, "fleet": "llama3", "gpus": 16_384, "half_width": 0.05}


def test_cells_that_are_empty_or_the_default_fail_no_row() -> None:
    others = {"what_if": "false", "more_spares": "30", "spare_kind": "cold", "work_s": ""}
    assert goodput(**SIMPLE, **others, mfu=None).results == goodput(**SIMPLE).results
    mine = {"gpus_per_node": "8", "failure_shape": 1, "method": "simulate", "mtti_s": ""}
    asked = FLEET | {"duration_s": DAY}
    assert goodput(**asked, **mine).results == goodput(**asked).results
    month = {"duration_s": "2592000.0", "work_s": DAY}
    work = goodput(**(FLEET | month)).results
    assert work["finish_s"] == goodput(**FLEET, work_s=DAY).results["finish_s"]
