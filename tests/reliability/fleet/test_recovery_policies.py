"""Recovery policies of goodput: as documented, and as in fleet schedule."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from perfatlas.reliability.fleet.model import recovery_policies
from perfatlas.reliability.jobs.model import LAUNCHERS
from perfatlas.verbs.goodput import goodput
from perfatlas.vocabulary.fields import JobOnFleet

FLEET = """
units = 66
spares = 2
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "40 d" }
[[cause]]
name = "process"
per_unit = 1
takes = "nothing"
loses = "process"
lifetime = { law = "exponential", mean = "80 d" }
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = "1 d" }]
"""
STEP = {
    "step_time_s": 10,
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "tokens_per_step": 4_000_000,
}


def asked(folder: Path, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of any kind
    """Return a question about a job of 64 nodes with 2 spares."""
    path = folder / "fleet.toml"
    path.write_text(FLEET)
    known = {"checkpoint_write_s": 20, "restart_s": 120, "checkpoint_interval_s": 1200}
    return {"fleet": str(path), "gpus": 512, "half_width": 0.02, **known, **fields}


def test_policies_of_both_simulators_detect_after_the_same_time() -> None:
    policies = recovery_policies()
    for name in policies:  # each is a choice of the field
        assert repr(name) in str(JobOnFleet.__annotations__["response"])
    shared = set(policies) & set(LAUNCHERS)
    assert shared == {"slurm_requeue", "slurm_no_kill", "torchrun", "jobset"}
    for name in shared:
        assert policies[name].detection_s == LAUNCHERS[name]().detection_s
    assert all(policy.source and policy.does for policy in policies.values())


def test_a_lost_node_is_detected_as_documented_and_a_process_at_once(tmp_path: Path) -> None:
    found = goodput(**asked(tmp_path, response="slurm_requeue"))
    (detecting,) = [row for row in found.breakdown if row["name"] == "detection"]
    # the 64 nodes fail 1.6 times a day and lose 300 s each; processes lose nothing
    nodes_per_s = 64 / 40 / 86400
    assert detecting["share"] == pytest.approx(300 * nodes_per_s, rel=0.2)
    assert any("SlurmdTimeout" in text for text in found.evidence.assumptions)


def test_a_job_under_no_kill_shrinks_with_every_lost_node_and_never_grows(tmp_path: Path) -> None:
    fields = {"response": "slurm_no_kill", "fewest_gpus": 8, "restart_s": 0.01}
    fields |= {"checkpoint_write_s": 0, "checkpoint_interval_s": 30, "detection_s": 0.01}
    days = 30
    found = goodput(**asked(tmp_path, duration_s=days * 86400, half_width=0.005, **fields))
    # nodes that are lost never return: their mean number falls as exp(-t / 40 d); each of the two
    # kinds of failures, some 52 + 1.2 a day, costs 15 s of work
    left = days / 40
    expected = -math.expm1(-left) / left
    assert found.results["goodput"] == pytest.approx(expected, abs=0.01)
    grows = goodput(**asked(tmp_path, **{**fields, "response": "torchrun"})).results["goodput"]
    assert grows > 0.97


def test_below_its_minimum_a_job_under_no_kill_waits_for_all_nodes(tmp_path: Path) -> None:
    fields = {"response": "slurm_no_kill", "duration_s": 200 * 86400}
    rows = [goodput(**asked(tmp_path, fewest_gpus=n, **fields)).breakdown for n in (504, 256)]
    often, seldom = ({row["name"]: row["share"] for row in one} for one in rows)
    assert often["degraded"] < seldom["degraded"]
    requeue = goodput(**asked(tmp_path, response="slurm_requeue", duration_s=200 * 86400))
    waits = {row["name"]: row["share"] for row in requeue.breakdown}["waiting_for_spares"]
    assert seldom["waiting_for_spares"] < often["waiting_for_spares"] < waits


def test_torchft_loses_a_step_and_in_job_restarts_have_hot_spares(tmp_path: Path) -> None:
    elastic = {"fewest_gpus": 448, "replica_gpus": 32, **STEP}
    torchft = goodput(**asked(tmp_path, response="torchft", **elastic)).results
    slurm = goodput(**asked(tmp_path, response="slurm_requeue")).results
    in_job = goodput(**asked(tmp_path, response="in_job_restart")).results
    assert torchft["goodput"] > in_job["goodput"] > slurm["goodput"]
