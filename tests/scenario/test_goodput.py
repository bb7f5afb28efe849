from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.fleet.model import find_rate
from perfatlas.verbs.goodput import goodput, goodput_spares
from tests.examples import scaled_examples

HOUR, DAY = 3600.0, 86400.0
CASE = {"mtti_s": 7.9 * HOUR, "checkpoint_write_s": 60.0, "restart_s": 300.0}
FLEET = {"gpus": 512, "node_mtbf_s": 40 * DAY, "checkpoint_write_s": 30.0, "restart_s": 300.0}


def test_the_exact_form_is_that_of_the_reference() -> None:
    # M 7.9 h, delta 60 s, R 5 min: tau* 30.127 min, E 0.92662
    results = goodput(**CASE).results
    assert results["goodput"] == pytest.approx(0.92662, abs=5e-6)
    assert results["optimal_checkpoint_interval_s"] == pytest.approx(30.127 * 60, abs=0.03)
    assert results["interruptions_per_day"] == pytest.approx(24 / 7.9)
    assert results["goodput_low"] is None


@given(
    mtti_s=st.floats(60.0, 1e7),
    write_s=st.floats(0.1, 600.0),
    restart_s=st.floats(0.0, 3600.0),
    detection_s=st.floats(0.0, 600.0),
)
@settings(max_examples=scaled_examples(1), deadline=None)
def test_buckets_sum_to_one_and_more_failures_never_help(
    mtti_s: float, write_s: float, restart_s: float, detection_s: float
) -> None:
    fields = {
        "checkpoint_write_s": write_s,
        "restart_s": restart_s,
        "detection_s": detection_s,
        "checkpoint_interval_s": 900.0,
    }
    answer = goodput(mtti_s=mtti_s, **fields)
    assert sum(row["share"] for row in answer.breakdown) == pytest.approx(1.0)
    worse = goodput(mtti_s=0.9 * mtti_s, **fields)
    assert worse.results["goodput"] <= answer.results["goodput"]


def test_closed_buckets_are_those_of_the_simulator() -> None:
    fields = {**CASE, "detection_s": 120.0, "duration_s": 60 * DAY, "half_width": 5e-4}
    exact, simulated = goodput(**fields), goodput(**fields, method="simulate")
    assert simulated.evidence.tier == "simulate"
    shares = {row["name"]: row["share"] for row in simulated.breakdown}
    for row in exact.breakdown:
        assert shares[row["name"]] == pytest.approx(row["share"], rel=0.03), row["name"]
    low, high = simulated.results["goodput_low"], simulated.results["goodput_high"]
    assert low - 5e-4 < exact.results["goodput"] < high + 5e-4


@pytest.mark.parametrize("interval_s", [120.0, 600.0])
def test_a_write_that_a_failure_cuts_short_is_a_checkpoint_in_both_forms(interval_s: float) -> None:
    fields = {
        "mtti_s": 558.0, "checkpoint_write_s": 297.0, "restart_s": 38.5, "detection_s": 10.0,
        "checkpoint_interval_s": interval_s,
    }  # fmt: skip
    exact, simulated = goodput(**fields), goodput(**fields, method="simulate")
    shares = {row["name"]: row["share"] for row in simulated.breakdown}
    assert shares.keys() == {row["name"] for row in exact.breakdown}
    for row in exact.breakdown:
        assert shares[row["name"]] == pytest.approx(row["share"], abs=0.003), row["name"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"failure_shape": 0.7}, "failures are not memoryless"),
        ({"spares": 0, "repair_s": DAY}, "wait"),
    ],
)
def test_auto_simulates_outside_the_exact_form(fields: dict[str, float], why: str) -> None:
    answer = goodput(**FLEET, **fields, duration_s=5 * DAY, half_width=0.02)
    assert answer.results["method"] == "simulate"
    assert any(why in text for text in answer.evidence.assumptions)
    with pytest.raises(InvalidSpecError, match="is not valid"):
        goodput(**FLEET, **fields, method="exact")


def test_a_count_of_failures_gives_the_interval() -> None:
    wide = goodput(**CASE, failures_seen=10).results
    narrow = goodput(**CASE, failures_seen=1000).results
    assert wide["goodput_low"] < narrow["goodput_low"] < narrow["goodput"]
    assert narrow["goodput"] < narrow["goodput_high"] < wide["goodput_high"]


def test_a_published_rate_brings_its_source_and_interval() -> None:
    fields = {"gpus": 16_384, "checkpoint_write_s": 30, "restart_s": 300, "duration_s": 54 * DAY}
    found = goodput(failure_rate="llama3_node_unexpected", **fields)
    assert found.results["interruptions"] == pytest.approx(419)
    assert found.results["goodput_low"] < found.results["goodput"] < found.results["goodput_high"]
    assert any("arXiv 2407.21783" in text for text in found.evidence.assumptions)


@pytest.mark.parametrize("gpus_per_node", [1, 4, 8, 16])
def test_a_published_rate_is_counted_by_gpus(gpus_per_node: int) -> None:
    found = goodput(
        failure_rate="llama3_node_unexpected", gpus=16_384, gpus_per_node=gpus_per_node,
        checkpoint_write_s=30, restart_s=300,
    )  # fmt: skip
    assert found.results["mtti_s"] == pytest.approx(54 * DAY / 419)
    said = " ".join(found.evidence.assumptions)
    assert "per node of 8 GPUs and scales with GPUs" in said
    ignored = f"gpus_per_node = {gpus_per_node} does not change it"
    assert (ignored in said) == (gpus_per_node != 8)


def test_a_rate_of_a_job_goes_with_its_gpus() -> None:
    fields = {"failure_rate": "llama3_software", "checkpoint_write_s": 30, "restart_s": 300}
    whole = goodput(gpus=16_384, **fields)
    half = goodput(gpus=8_192, **fields)
    assert whole.results["mtti_s"] == pytest.approx(54 * DAY / 63)
    assert half.results["mtti_s"] == pytest.approx(2 * 54 * DAY / 63)
    assert "scales with the job's GPUs, an assumption" in " ".join(half.evidence.assumptions)


def test_spares_for_a_target_are_the_fewest() -> None:
    fields = {"nodes": 2048, "node_mtbf_s": DAY / 6.5e-3, "repair_s": DAY}
    found = goodput_spares(**fields, target=0.999).results
    assert found["spares"] == 25
    assert found["blocked_probability"] == pytest.approx(0.00070, abs=5e-6)
    assert found["blocked_probability_one_fewer"] == pytest.approx(0.00136, abs=5e-6)
    few = goodput_spares(**fields, target=0.999, crews=20).results
    assert few["spares"] > 25
    assert (
        goodput_spares(**fields, spares=few["spares"] - 1, crews=20).results["blocked_probability"]
        == few["blocked_probability_one_fewer"]
        > 0.001
    )


def test_too_few_crews_are_infeasible_and_contradictions_refused() -> None:
    fields = {"nodes": 100, "node_mtbf_s": 10 * DAY, "repair_s": DAY}
    assert "waits with any number of" in goodput_spares(**fields, spares=5, crews=2).warnings[0]
    with pytest.raises(InfeasibleError, match="leave the job waiting"):
        goodput_spares(**fields, target=0.999, crews=2)
    with pytest.raises(InvalidSpecError, match="either spares"):
        goodput_spares(**fields)


TWO_REPAIRS = """
units = 120
[[cause]]
name = "board"
per_unit = 1
lifetime = { law = "exponential", mean = "100 d" }
[[cause]]
name = "cable"
per_unit = 2
repair = "cable"
lifetime = { law = "exponential", mean = "200 d" }
[[cause]]
name = "crash"
shared = 1
takes = "nothing"
loses = "process"
lifetime = { law = "exponential", mean = "5 d" }
[[repair]]
name = "board"
stages = [{ name = "swap", lasts = "36 h" }]
[[repair]]
name = "cable"
stages = [{ name = "plug", lasts = { law = "exponential", mean = "12 h" } }]
"""


def test_spares_of_a_fleet_are_those_its_simulation_waits_for(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TWO_REPAIRS)
    asked = {"fleet": str(path), "gpus": 800, "spares": 2}
    exact = goodput_spares(**asked)
    # 100 nodes, each out every 50 d for 24 h on average: a load of 2, B(3, 2) = 4/19
    assert exact.results["nodes_under_repair"] == pytest.approx(2.0 * 15.0 / 19.0)
    assert exact.evidence.tier == "erlang_b"
    assert exact.results["blocked_probability"] == pytest.approx(4.0 / 19.0)
    assert "board, cable, and return after 24 h" in exact.evidence.assumptions[1]
    rounds = [
        goodput(
            **asked, checkpoint_write_s=0, checkpoint_interval_s=3600, restart_s=0,
            duration_s=2000 * DAY, half_width=0.02, seed=seed,
        ).breakdown
        for seed in range(8)
    ]  # fmt: skip
    waiting = [
        next(row["share"] for row in rows if row["name"] == "waiting_for_spares") for rows in rounds
    ]
    error = float(np.std(waiting, ddof=1)) / len(waiting) ** 0.5
    assert abs(float(np.mean(waiting)) - 4.0 / 19.0) < 3.0 * error + 0.21 * 2 / 2000


def test_few_crews_repair_few_and_more_are_out() -> None:
    fields = {"nodes": 2048, "node_mtbf_s": DAY / 6.5e-3, "repair_s": DAY}
    found = goodput_spares(**fields, spares=24, crews=3).results
    assert found["nodes_under_repair"] == pytest.approx(3.0, abs=1e-3)
    assert found["nodes_out"] == pytest.approx(24.7, abs=0.05)
    # what fails is what is repaired: 13.3 a day while the job does not wait, 3 a day
    assert 13.312 * (1 - found["blocked_probability"]) == pytest.approx(3.0, abs=1e-3)


def test_a_job_without_spares_and_a_fleet_too_small_for_them_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(TWO_REPAIRS)
    asked = {"fleet": str(path), "gpus": 800}
    # 100 nodes leave 2 times a day and are back after a day: Erlang-B of one server, 2 / (1 + 2)
    none = goodput_spares(**asked, spares=0)
    assert none.results["blocked_probability"] == pytest.approx(2 / 3)
    assert none.results["nodes_under_repair"] == pytest.approx(2 / 3)
    assert not none.warnings
    many = goodput_spares(**asked, spares=25)
    assert "need 125 nodes, the fleet has 120" in many.warnings[0]
    assert not goodput_spares(**asked, spares=20).warnings
    few = goodput_spares(**asked, spares=25, crews=4)
    assert (
        f"fleet = {path}, gpus = 800, spares = 25, fleet_units = 125 simulates" in few.warnings[1]
    )
    job = {"checkpoint_write_s": 10, "restart_s": 60, "half_width": 0.05}
    with pytest.raises(InfeasibleError, match="fleet_units = 125"):
        goodput(**asked, **job, spares=25)
    assert goodput(**asked, **job, spares=25, fleet_units=125).results["spares"] == 25


def test_a_95_percent_interval_is_narrowed_to_90_by_the_normal_law() -> None:
    # of a logarithm: 1.644854 / 1.959964 standard errors
    rate = find_rate("llama3_node_unexpected")
    found = goodput(
        gpus=16384, failure_rate=rate.name, checkpoint_write_s=30.0, restart_s=60.0
    ).results
    assert rate.high_per_day is not None
    wide = np.log(rate.high_per_day / rate.per_day)
    narrow = np.log(found["mtti_s"] / found["mtti_s_low"])
    assert narrow / wide == pytest.approx(1.6448536 / 1.9599640, rel=1e-7)
