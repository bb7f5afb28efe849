"""Goodput options without effect."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.goodput import goodput

DAY = 86400.0
JOB: dict[str, Any] = {"checkpoint_write_s": 60, "restart_s": 300}
SIMPLE: dict[str, Any] = {**JOB, "mtti_s": 28_440}
FLEET: dict[str, Any] = {**JOB, "fleet": "llama3", "gpus": 16_384, "half_width": 0.05}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"half_width": 0.04}, "half_width = 0.04 has no effect"),
        ({"seed": 3, "method": "young"}, "seed = 3 has no effect"),
    ],
)
def test_simulation_options_of_a_closed_form_are_remarked_on(
    fields: dict[str, Any], said: str
) -> None:
    plain = SIMPLE | {"method": fields.get("method", "auto")}
    found = goodput(**(plain | fields))
    assert any(said in text for text in found.warnings)
    assert found.results == goodput(**plain).results
    simulated = goodput(**(SIMPLE | fields | {"method": "simulate", "duration_s": DAY}))
    assert not any("has no effect" in text for text in simulated.warnings)


def test_cells_that_are_empty_or_the_default_fail_no_row() -> None:
    others = {"what_if": "false", "more_spares": "30", "spare_kind": "cold", "work_s": ""}
    assert goodput(**SIMPLE, **others, mfu=None).results == goodput(**SIMPLE).results
    mine = {"gpus_per_node": "8", "failure_shape": 1, "method": "simulate", "mtti_s": ""}
    asked = FLEET | {"duration_s": DAY}
    assert goodput(**asked, **mine).results == goodput(**asked).results
    month = {"duration_s": "2592000.0", "work_s": DAY}
    work = goodput(**(FLEET | month)).results
    assert work["finish_s"] == goodput(**FLEET, work_s=DAY).results["finish_s"]
