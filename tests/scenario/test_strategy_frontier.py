"""Recovery strategies of a job: each priced as a single answer, and which none exceeds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from perfatlas.verbs.goodput import StrategyFrontier, goodput, goodput_frontier
from perfatlas.verbs.train import train

FLEET = """
units = 70
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "40 d" }
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = "1 d" }]
[[strategy]]
name = "two levels"
[[strategy.checkpoint]]
name = "peer"
write = "3 s"
survives = "process"
[[strategy.checkpoint]]
name = "remote"
write = "40 s"
every = 4
[[strategy.restart]]
name = "restart"
phases = { init = "120 s" }
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a question about a job of 64 nodes, of which 1.6 a day fail for a day."""
    path = tmp_path_factory.mktemp("frontier") / "fleet.toml"
    path.write_text(FLEET)
    return {"fleet": str(path), "gpus": 512, "half_width": 0.5, "duration_s": 20 * 86400.0}


@pytest.fixture(scope="module")
def found(asked: dict[str, Any]) -> StrategyFrontier:
    """Return its frontier."""
    return goodput_frontier(**asked, usd_per_gpu_hour=2.0)


def test_no_strategy_exceeds_the_frontier_and_all_are_counted(found: StrategyFrontier) -> None:
    rows, columns = found.results["strategy_frontier"], found.columns
    assert [row["gpus_held"] for row in rows] == sorted(row["gpus_held"] for row in rows)
    for held, value, on in zip(
        columns["gpus_held"], columns["goodput"], columns["on_frontier"], strict=True
    ):
        beats = [row for row in rows if row["gpus_held"] <= held and row["goodput"] >= value]
        assert beats
        if on:  # of equal strategies the first one
            assert any(row["gpus_held"] == held and row["goodput"] == value for row in beats)
    assert columns["on_frontier"].count(True) == len(rows)
    assert found.results["strategies"] == len(columns["goodput"])
    assert found.results["strategies_dominated"] == len(columns["goodput"]) - len(rows)
    best = found.results["best_strategy"]
    assert best["useful_share_of_held"] == max(columns["useful_share_of_held"])
    assert best["usd_per_useful_gpu_hour"] == pytest.approx(2.0 / best["useful_share_of_held"])


def test_a_strategy_is_priced_as_a_single_answer(
    found: StrategyFrontier, asked: dict[str, Any]
) -> None:
    columns = found.columns
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    both = [row for row in rows if row["checkpoint_levels"] == "peer + remote"]
    for row in both[:: max(len(both) // 5, 1)]:
        fields = {name: row[name] for name in ("response", "spares", "checkpoint_interval_s")}
        one = goodput(**asked, **fields, fleet_units=max(70, 64 + row["spares"])).results
        assert one["goodput"] == row["goodput"]
        assert one["gpus_held"] == row["gpus_held"]


def test_what_is_varied_by_hand(found: StrategyFrontier, asked: dict[str, Any]) -> None:
    # 64 nodes / 40 d x 1 d = 1.6 under repair: Poisson quantiles 1, 3, 5, 7 beside none
    assert sorted(set(found.columns["spares"])) == [0, 1, 3, 5, 7]
    assert set(found.columns["checkpoint_levels"]) == {"peer + remote", "remote"}
    policies = {"slurm_requeue", "jobset", "torchrun", "in_job_restart"}
    assert set(found.columns["response"]) == policies
    # three intervals x (policies x levels x spares, without hot spares where there are none)
    assert found.results["strategies"] == 3 * (4 * 2 * 5 - 2)
    skipped = {row["reason"]: row["count"] for row in found.results["strategies_skipped"]}
    assert skipped["response = in_job_restart needs spares in its allocation"] == 6
    assert sum(skipped.values()) == 6 + 2 * 30  # torchft and slurm_no_kill need fewest_gpus
    one = goodput_frontier(**asked, response="jobset", spares=2, checkpoint_interval_s=600)
    assert set(one.columns["spares"]) == {0, 1, 2, 3, 5, 7}
    assert 600.0 in one.columns["checkpoint_interval_s"]
    assert set(one.columns["response"]) == {"jobset"}


def test_a_predicted_step_gives_gpus_and_checkpoint_size(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "step.toml"
    path.write_text(
        'model = "meta-llama/Llama-3.1-8B"\nsystem = "h100_sxm"\ngpus = 64\nglobal_batch = 64\n'
    )
    asked = {**asked, "fleet": "llama3", "restart_s": 300.0, "response": "slurm_requeue"}
    asked |= {"checkpoint_bytes_per_s": 1e10, "spares": 1, "usd_per_gpu_hour": 2.0}
    found = goodput_frontier(**(asked | {"gpus": None}), train=str(path))
    size = train(**tomllib.loads(path.read_text())).results["checkpoint_bytes"]
    alone = goodput_frontier(**(asked | {"gpus": 64}), checkpoint_bytes=size)
    assert found.columns == alone.columns
    assert goodput_frontier(**found.scenario).columns == found.columns
