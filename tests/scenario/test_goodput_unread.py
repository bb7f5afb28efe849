"""Goodput options without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.verbs.goodput import goodput, goodput_spares

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0
JOB: dict[str, Any] = {"checkpoint_write_s": 60, "restart_s": 300}
SIMPLE: dict[str, Any] = {**JOB, "mtti_s": 28_440}
FLEET: dict[str, Any] = {**JOB, "fleet": "llama3", "gpus": 16_384, "half_width": 0.05}
SPARES: dict[str, Any] = {"nodes": 100, "node_mtbf_s": 1e7, "repair_s": DAY}
LEMONS = """
units = 44
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "60 d" }
lemons = { share = 0.1, factor = 20 }
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = "1 d" }]
"""


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


def test_spares_that_do_not_exist_and_units_that_nobody_uses_are_remarked_on() -> None:
    asked = FLEET | {"spares": 0, "duration_s": DAY}
    none = goodput(**asked, spare_kind="hot")
    assert any(
        "spare_kind = hot has no effect here: there are no spares" in text for text in none.warnings
    )
    assert none.results["goodput"] == goodput(**asked).results["goodput"]
    more = goodput(**asked, fleet_units=2100)
    assert any("52 units of fleet_units = 2,100 are neither" in text for text in more.warnings)
    idle = goodput_spares(**SPARES, spares=0, warm=True)
    assert any("warm = true has no effect here: spares = 0" in text for text in idle.warnings)
    used = goodput_spares(**SPARES, spares=1, warm=True)
    assert not any("has no effect" in text for text in used.warnings)


@pytest.mark.parametrize("response", ["slurm_requeue", "jobset"])
def test_the_order_of_spares_is_remarked_on_where_all_nodes_are_allocated_anew(
    tmp_path: Path, response: str
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(LEMONS, "utf-8")
    asked = FLEET | {"fleet": str(path), "gpus": 320, "spares": 4}
    usual = goodput(**asked, response=response)
    for order in ("first", "last_returned"):
        ordered = goodput(**asked, response=response, spare_order=order)
        said = (
            f"spare_order = {order} has no effect here: response = {response} allocates all nodes"
        )
        assert any(said in text for text in ordered.warnings)
        assert ordered.results == usual.results
    first = goodput(**asked, spare_order="first")
    assert not any("has no effect" in text for text in first.warnings)


def test_cells_that_are_empty_or_the_default_fail_no_row() -> None:
    others = {"what_if": "false", "more_spares": "30", "spare_kind": "cold", "work_s": ""}
    assert goodput(**SIMPLE, **others, mfu=None).results == goodput(**SIMPLE).results
    mine = {"gpus_per_node": "8", "failure_shape": 1, "method": "simulate", "mtti_s": ""}
    asked = FLEET | {"duration_s": DAY}
    assert goodput(**asked, **mine).results == goodput(**asked).results
    month = {"duration_s": "2592000.0", "work_s": DAY}
    work = goodput(**(FLEET | month)).results
    assert work["finish_s"] == goodput(**FLEET, work_s=DAY).results["finish_s"]
