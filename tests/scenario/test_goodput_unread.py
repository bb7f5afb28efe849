"""Goodput options without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput import goodput, goodput_spares

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0
JOB: dict[str, Any] = {"checkpoint_write_s": 60, "restart_s": 300}
SIMPLE: dict[str, Any] = {**JOB, "mtti_s": 28_440}
FLEET: dict[str, Any] = {**JOB, "fleet": "llama3", "gpus": 16_384, "half_width": 0.05}
SPARES: dict[str, Any] = {"nodes": 100, "node_mtbf_s": 1e7, "repair_s": DAY}
MODEL = "meta-llama/Llama-3.1-405B"
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
SILENT = """
units = 64
[[cause]]
name = "quiet"
lifetime = { law = "exponential", mean = "300 d" }
per_unit = 1
effect = "corrupts"
lasts = { law = "exponential", mean = "2 h" }
"""
TIMES = """
[[strategy]]
name = "times"
verify = "9 s"
shrink = { fewest = 32 }
[[strategy.checkpoint]]
name = "disk"
write = "1 min"
[[strategy.restart]]
name = "all"
phases = { load = "5 min" }
"""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"usd_per_gpu_hour": 2.0}, "neither gpus nor fleet is set; set gpus or fleet, or"),
        ({"gpus": 16, "gpus_per_node": 4}, "gpus_per_node = 4 has no .* mtti_s is .* of the whole"),
        (
            {"gpus": 16, "failure_shape": 0.7, "repair_s": 60},
            "repair_s = 60 has .* spares is not set",
        ),
        (
            {"model": MODEL},
            "neither a write bandwidth nor a step time for the MFU is set; set check",
        ),
        ({"checkpoint_bytes": 5e12}, "no write bandwidth is set; set checkpoint_bytes_per_s"),
        ({"format": "fp8"}, "format = fp8 has no effect here: step_time_s is not set"),
        ({"failures_seen": 9, "mtti_s": None, "failure_rate": "rsc1_node", "gpus": 8}, "leave fai"),
        ({"more_spares": 5}, "fleet is not set; set fleet, such as llama3, or leave more_sp"),
        ({"system": "h100_sxm"}, "neither step_time_s nor tokens_per_step is set"),
        ({"work_s": 9, "mfu": 0.4}, "work_s = 9 and mfu = 0.4 have no .*, or leave work_s and mfu"),
    ],
)
def test_options_without_effect_on_a_job_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        goodput(**(SIMPLE | fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"work_s": DAY, "duration_s": 5 * DAY},
            "duration_s = 432000 has .* work_s = 86400 ends",
        ),
        ({"more_spares": 5}, "more_spares = 5 has .* what_if is not set; set what_if, or"),
        ({"verify_s": 5}, "verify_s = 5 has no effect here: what_if is not set"),
        ({"verify_s": 5, "what_if": True}, "no cause of this fleet has"),
        ({"checkpoint_bytes": 5e12}, "no write bandwidth is set; set checkpoint_bytes_per"),
        ({"checkpoint_bytes": 5e12, "model": MODEL}, "model = .* no effect here: checkpoint_bytes"),
        ({"model": MODEL, "format": "fp8"}, "format = fp8 has no effect here: step_time_s is not"),
        ({"method": "exact"}, "method = exact .* a job on a fleet is always simulated; leave"),
        ({"mtti_s": 60, "method": "auto"}, "leave fleet out, or leave mtti_s out"),
        ({"replica_gpus": 64}, "neither fewest_gpus nor what_if is set"),
        ({"finish_by_s": 9e6}, "work_s is not set; set work_s, or leave finish_by_s out"),
    ],
)
def test_options_without_effect_on_a_fleet_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        goodput(**(FLEET | fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"checkpoint_bytes": 5e12}, "checkpoint_bytes = 5e.12 has no effect here"),
        (
            {"replica_gpus": 64, "what_if": True},
            "strategy 'times' defines shrink; set",
        ),
        ({"verify_s": 5, "what_if": True}, "strategy 'times' has verify 9 s; leave verify_s out"),
        (
            {"checkpoint_bytes": 5e12, "checkpoint_bytes_per_s": 1e11},
            "checkpoint_bytes_per_s implies it",
        ),
    ],
)
def test_fields_that_the_strategy_sets_are_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(SILENT + TIMES, "utf-8")
    with pytest.raises(InvalidSpecError, match=said):
        goodput(fleet=str(path), half_width=0.05, duration_s=DAY, **fields)


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
