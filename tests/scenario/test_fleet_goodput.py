from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet import laws, model
from perfatlas.reliability.fleet.laws.laws import Tabled
from perfatlas.verbs.goodput import fleet_goodput, goodput

DAY = 86400.0
SMALL = """
units = 40
[[cause]]
name = "node"
per_unit = 1
detection = "2 min"
lifetime = { law = "exponential", mean = "40 d" }
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = { law = "exponential", mean = "2 d" } }]
"""


@pytest.fixture
def small(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "fleet.toml"
    path.write_text(SMALL)
    return {
        "fleet": str(path),
        "gpus": 256,
        "spares": 3,
        "checkpoint_write_s": 60,
        "restart_s": 600,
        "duration_s": 20 * DAY,
        "half_width": 0.01,
    }


def test_llama3_is_the_sum_of_its_published_causes() -> None:
    assert set(model.shipped_fleets()) == {"llama3", "rsc1"}
    assert model.fleet_rate_per_s(model.resolve_fleet("llama3"), 2048) * 54 * DAY == pytest.approx(
        419.0
    )
    assert model.fleet_rate_per_s(model.resolve_fleet("rsc1"), 2048) * DAY == pytest.approx(
        2048 * 6.5e-3
    )


@pytest.mark.parametrize("gpus", [8, 131_072])
def test_a_fleet_and_a_rate_of_one_cluster_agree_at_any_size(gpus: int) -> None:
    fleet = model.resolve_fleet("llama3")
    by_rate = goodput(
        failure_rate="llama3_node_unexpected", gpus=gpus, checkpoint_write_s=30, restart_s=300
    )
    by_fleet_s = 1.0 / model.fleet_rate_per_s(fleet, gpus // 8)
    assert by_fleet_s == pytest.approx(by_rate.results["mtti_s"], rel=1e-9)
    told = model.rate_interval(fleet, gpus // 8, "llama3").text()
    assert "llama3_software, of a job of 16,384 GPUs, scales with the job's GPUs" in told


def test_16384_gpus_for_54_days_are_those_of_the_reference() -> None:
    # 2,048 nodes, 6.5 per 1000 node-days, tau 30 min, delta 60 s, detect 2 + restart 10 min
    found = fleet_goodput(
        fleet="rsc1", gpus=16_384, checkpoint_write_s=60, restart_s=600,
        checkpoint_interval_s=1800, duration_s=54 * DAY, half_width=0.001,
    )  # fmt: skip
    assert found.answer.results["goodput"] == pytest.approx(0.74794, abs=0.003)
    assert found.answer.results["spares"] == 32


def test_a_job_has_spares_in_the_ratio_of_its_fleet(
    small: dict[str, object], tmp_path: Path
) -> None:
    asked = small | {"spares": None, "half_width": 0.2, "duration_s": DAY, "usd_per_gpu_hour": 2}
    path = tmp_path / "spares.toml"
    path.write_text(SMALL.replace("units = 40", 'units = 40\nspares = 4\nspares_ref = "our rule"'))
    # 4 spares for 36 other units: ceil(8 / 9) for 8, ceil(32 / 9) for 32, and no more than the rest
    for gpus, spares in ((64, 1), (256, 4), (288, 4), (304, 2), (320, 0), (None, 4)):
        found = goodput(**(asked | {"fleet": str(path), "gpus": gpus}))
        assert found.results["spares"] == spares
        assert found.results["gpus_held"] == found.results["gpus"] + 8 * spares
        said = f"spares = {spares} by default: the fleet has 4 for 36 other units (our rule)"
        assert any(said in text for text in found.warnings) == (spares > 0)
    doubled = goodput(**(asked | {"fleet": str(path), "gpus": 288, "fleet_units": 80}))
    assert doubled.results["spares"] == 4
    stated = goodput(**(asked | {"fleet": str(path), "spares": 7}))
    assert not any("by default" in text for text in stated.warnings)
    none = goodput(**asked)  # a fleet that states none
    assert none.results["spares"] == 0
    assert any("there are no spares" in text for text in none.warnings)
    path.write_text(SMALL.replace("units = 40", "units = 40\nspares = 40"))
    with pytest.raises(InvalidSpecError, match="spares = 40: expected 0 to 39"):
        goodput(**(asked | {"fleet": str(path)}))


def test_buckets_factors_and_spread_belong_together(small: dict[str, object]) -> None:
    run = fleet_goodput(**small, mfu=0.4, scheduling=0.9, usd_per_gpu_hour=2.0)
    results, rows = run.answer.results, run.answer.breakdown
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert {row["name"] for row in rows} > {"productive", "waiting_for_spares", "detection"}
    factors = results["factors"]
    assert factors["product"] == pytest.approx(results["goodput"] * 0.4 * 0.9)
    assert factors["availability"] * factors["ettr"] == pytest.approx(results["goodput"])
    assert results["gpus_held"] == 256 + 24
    assert results["cost_usd"]["mean"] == pytest.approx(280 * 480 * 2.0)
    useful = results["useful_gpu_hours"]
    assert useful["p5"] < useful["p50"] < useful["p95"]
    assert useful["mean"] == pytest.approx(results["goodput"] * results["gpu_hours"])


def test_the_interval_holds_how_sure_the_rates_are(small: dict[str, object]) -> None:
    fields = {"checkpoint_write_s": 30, "restart_s": 600, "gpus": 16_384, "half_width": 0.005}
    known = goodput(fleet="llama3", **fields)
    low, high = known.results["goodput_low"], known.results["goodput_high"]
    # 419 failures: 8 % of the rate, and the error of the mean, of the 13 % that are lost
    lost = 1 - known.results["goodput"]
    assert 0.01 < (high - low) / 2 < 0.2 * lost
    assert any("± 8.3% by its number of failures" in text for text in known.evidence.assumptions)
    unknown = goodput(**small)
    assert any("is unknown" in text for text in unknown.evidence.assumptions)
    path = Path(str(small["fleet"])).with_suffix(".evidence.toml")
    path.write_text(
        '[[cause]]\nname = "node"\nmean_time_between = "40 d"\n'
        'mean_time_between_interval = ["20 d", "80 d"]\n'
    )
    fitted = goodput(**small).results
    assert fitted["goodput_low"] < unknown.results["goodput_low"]
    assert fitted["goodput_high"] > unknown.results["goodput_high"]
    path.write_text("cause = ")
    with pytest.raises(InvalidSpecError, match="fit the fleet again"):
        goodput(**small)


def test_work_that_ends_has_a_time_and_a_cost(small: dict[str, object]) -> None:
    run = fleet_goodput(**{**small, "duration_s": None}, work_s=5 * DAY, usd_per_gpu_hour=2.0)
    finish, cost = run.answer.results["finish_s"], run.answer.results["cost_usd"]
    assert 5 * DAY < finish["p5"] < finish["p95"] <= finish["p99"]
    assert cost["p95"] == pytest.approx(finish["p95"] / 3600 * 280 * 2.0)
    assert finish["mean"] == pytest.approx(5 * DAY / run.answer.results["goodput"], rel=0.02)


def test_single_changes_are_ranked_and_none_of_them_hurts(small: dict[str, object]) -> None:
    changes = fleet_goodput(**small, what_if=True, spare_start_s=600).answer.results["changes"]
    names = [row["name"] for row in changes]
    assert {"30 more spares", "restart in half the time", "detection in half the time"} < set(names)
    assert {"hot spares", "half as many failures"} < set(names)
    gains = [row["gained_gpu_hours"] for row in changes]
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 0 for gain in gains)
    assumes = {row["name"]: row["assumes"] for row in changes}
    assert "8 GPUs are dropped at a time" in assumes["elastic operation"]
    assert "no stall" in assumes["checkpoints written in the background"]
    assert "the same work between checkpoints" in assumes["checkpoints written in the background"]
    assert "the optimum then" in assumes["checkpoints written twice as fast"]
    assert all(assumes.values())
    more = next(row for row in changes if row["name"] == "30 more spares")
    assert more["added_gpu_hours"] == 30 * 8 * 480


def test_common_random_numbers_make_small_gains_sure(small: dict[str, object]) -> None:
    run = fleet_goodput(**{**small, "spares": 8}, what_if=True)
    change = next(
        row for row in run.answer.results["changes"] if row["name"] == "detection in half the time"
    )
    alone = run.outcome.half_width * run.answer.results["gpu_hours"]
    assert change["gained_gpu_hours_half_width"] < 0.2 * alone
    # each failure saves one of two minutes on 256 GPUs, of which the useful share is gained
    results = run.answer.results
    saved = results["interruptions"] * 60 / 3600 * 256 * results["goodput"]
    assert change["gained_gpu_hours"] == pytest.approx(saved, rel=0.15)


@pytest.mark.parametrize(
    "law",
    [
        laws.Constant(value_s=5.0),
        laws.Exponential(mean_s=5.0),
        laws.Weibull(shape=0.7, scale_s=5.0),
        laws.LogNormal(median_s=5.0, sigma=1.0),
        laws.Empirical(values_s=(1.0, 2.0, 6.0)),
        Tabled(probability_K=(0.0, 0.5, 1.0), value_s_K=(0.0, 1.0, 5.0)),
        laws.Bathtub(
            infant=laws.Weibull(shape=0.5, scale_s=9.0),
            chance=laws.Exponential(mean_s=8.0),
            wear=laws.Weibull(shape=3.0, scale_s=7.0),
        ),
    ],
)
def test_a_scaled_law_has_a_scaled_mean(law: laws.Law) -> None:
    assert laws.mean_s(laws.scaled(law, 3.0)) == pytest.approx(3.0 * laws.mean_s(law))


def test_no_optimum_is_stated_without_a_closed_form(
    small: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "peers.toml"
    path.write_text(
        SMALL
        + '[[cause]]\nname = "row"\nshared = 1\nloses = "domain"\n'
        + 'lifetime = { law = "exponential", mean = "50 d" }\n'
        + '[[strategy]]\nname = "peers"\nlost_step = "30 s"\n'
        + '[[strategy.checkpoint]]\nname = "disk"\nwrite = "2 min"\n'
        + '[[strategy.restart]]\nname = "all"\nphases = { load = "5 min" }\n'
    )
    asked = {k: v for k, v in small.items() if k not in ("checkpoint_write_s", "restart_s")}
    found = goodput(**(asked | {"fleet": str(path)}))
    assert found.results["optimal_checkpoint_interval_s"] is None
    # rows alone need a checkpoint: by Young sqrt(2 x 120 s x 50 d)
    assert found.results["checkpoint_interval_s"] == pytest.approx(32_200, rel=0.01)
    assert any("peers hold the state" in said for said in found.evidence.assumptions)


def test_a_job_that_follows_the_advice_fits_its_fleet(small: dict[str, object]) -> None:
    quick = {**small, "duration_s": DAY, "half_width": 0.2}
    assert goodput(**(quick | {"gpus": 296})).results["spares"] == 3
    assert goodput(**(quick | {"gpus": 400, "fleet_units": 53})).results["spares"] == 3
