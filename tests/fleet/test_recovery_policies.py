"""Recovery policies of goodput: as documented, and as in fleet schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.fleet.model import recovery_policies
from perfatlas.jobs.model import LAUNCHERS
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.goodput import goodput
from perfatlas.vocabulary.fields import JobOnFleet

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """
units = 66
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
    assert shared == {"slurm_requeue", "torchrun", "jobset"}
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


def test_torchft_loses_a_step_and_in_job_restarts_have_hot_spares(tmp_path: Path) -> None:
    elastic = {"fewest_gpus": 448, "replica_gpus": 32, **STEP}
    torchft = goodput(**asked(tmp_path, response="torchft", **elastic)).results
    slurm = goodput(**asked(tmp_path, response="slurm_requeue")).results
    in_job = goodput(**asked(tmp_path, response="in_job_restart")).results
    assert torchft["goodput"] > in_job["goodput"] > slurm["goodput"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"response": "jobset", "fewest_gpus": 448}, "restarts the job on all its nodes"),
        ({"response": "torchft", **STEP}, "set fewest_gpus and replica_gpus"),
        ({"response": "torchft", "fewest_gpus": 448}, "loses one training step"),
        ({"response": "slurm"}, "response"),
    ],
)
def test_a_policy_refuses_what_contradicts_it(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidSpecError, match=said):
        goodput(**asked(tmp_path, **fields))
