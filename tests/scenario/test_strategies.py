from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.verbs.goodput import goodput

DAY = 86400.0
FLEET = """
units = 40
[[cause]]
name = "node"
per_unit = 1
detection = "2 min"
lifetime = { law = "exponential", events = 100, exposure = "4020 d" }
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = { law = "exponential", mean = "2 d" } }]
"""
STRATEGIES = """
[[strategy]]
name = "near and far"
spares = { count = 4, kind = "hot" }
maintenance = { every = "10 d", lasts = "4 h" }
[[strategy.checkpoint]]
name = "peers"
write = "3 s"
survives = "unit"
[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "10 GB/s"
every = 8
[[strategy.restart]]
name = "in-job"
phases = { start = "5 min" }

[[strategy]]
name = "far"
interval = "40 min"
[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "10 GB/s"
[[strategy.restart]]
name = "scheduler"
phases = { start = "15 min" }
"""


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET + STRATEGIES)
    return {
        "fleet": str(path),
        "gpus": 256,
        "duration_s": 40 * DAY,
        "half_width": 0.01,
        "checkpoint_bytes": 1e12,
    }


def test_the_first_strategy_of_the_fleet_is_taken(job: dict[str, Any]) -> None:
    answer = goodput(**job)
    assert answer.results["spares"] == 4
    assert {row["name"] for row in answer.breakdown} >= {"maintenance", "checkpoint"}
    said = " ".join(answer.evidence.assumptions)
    assert "strategy 'near and far': checkpoints peers, remote every 8" in said
    assert "Markov chain of checkpoint levels" in said
    assert "± 16% by its number of failures" in said  # 1.645 / sqrt(100.5)
    assert answer.results["closed_form_goodput"] > answer.results["goodput"]
    far = goodput(**job, strategy="far")
    assert far.results["checkpoint_interval_s"] == 2400.0
    assert far.results["goodput"] < answer.results["goodput"]
    assert goodput(**job, checkpoint_interval_s=600).results["checkpoint_interval_s"] == 600.0


def test_fields_take_precedence_over_a_strategy(job: dict[str, Any]) -> None:
    two = goodput(**job, spares=2).results
    assert (two["spares"], two["gpus_held"]) == (2, 256 + 16)
    cold = goodput(**job, spare_kind="cold", spare_start_s=600)
    assert "hot spares" not in " ".join(cold.evidence.assumptions)
    assert cold.results["goodput"] < goodput(**job).results["goodput"]


def test_what_if_compares_the_strategies_of_the_file(job: dict[str, Any]) -> None:
    changes = {row["name"]: row for row in goodput(**job, what_if=True).results["changes"]}
    other = changes["strategy 'far' instead"]
    assert other["gained_gpu_hours"] < 0.0
    # 'far' says nothing of spares: as many stand by as for the first
    assert other["added_gpu_hours"] == 0.0
    assert changes["restart in half the time"]["gained_gpu_hours"] > 0.0
    assert changes["checkpoints written twice as fast"]["gained_gpu_hours"] > 0.0


def test_fields_of_the_file_need_no_flags(
    job: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    step = ["--model", "meta-llama/Llama-3.2-1B", "--system", "h100_sxm", "--step-time-s", "2"]
    words = ["goodput", "--fleet", job["fleet"], "--gpus", "256", "--half-width", "0.02", *step]
    words += ["--tokens-per-step", "8000000"]
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    # 6 x 1,235,814,400 x 8e6 / 2 s over 256 x 989.4e12
    mfu = 6 * 1_235_814_400 * 4e6 / (256 * 989.4e12)
    assert answer["results"]["factors"]["mfu"] == pytest.approx(mfu, rel=1e-6)
    assert answer["results"]["checkpoint_bytes"] == 14 * 1_235_814_400
