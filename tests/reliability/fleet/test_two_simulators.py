"""`goodput` and `fleet schedule` count the same interruptions of one job on one fleet file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.verbs.goodput import goodput
from perfatlas.verbs.schedule import fleet_schedule

REPAIR = """
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = "1 d" }]
"""
FLEETS = {
    "memoryless": """
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "30 d" }
""",
    "lemons": """
[[cause]]
name = "node"
per_unit = 1
lifetime = { law = "exponential", mean = "60 d" }
lemons = { share = 0.12, factor = 15 }
""",
    "ageing": """
[[cause]]
name = "fan"
per_unit = 2
lifetime = { law = "weibull", shape = 2.5, scale = "40 d" }
""",
}
SECONDS = 60 * 86_400
SEEDS = 200  # schedules
REQUEUED = {"response": "slurm_requeue"}
SIMPLER = ("memoryless", "lemons")  # lemons are asked of "kueue" as well
JOB = f"job,submit_s,gpus,run_s,checkpoint_interval_s,restart_s\n1,0,160,{10 * SECONDS},7200,600\n"


@pytest.mark.parametrize(
    ("name", "response", "same"),
    [
        ("ageing", "slurm_requeue", REQUEUED),
        *(
            pytest.param(name, "slurm_requeue", REQUEUED, marks=pytest.mark.study)
            for name in SIMPLER
        ),
        ("lemons", "kueue", {"spare_order": "first", "detection_s": 350}),
    ],
)
def test_interruptions_are_the_same(
    tmp_path: Path, name: str, response: str, same: dict[str, Any]
) -> None:
    # a job of 20 of 25 nodes that a scheduler queues again, on the first nodes that are up; Kueue
    # replaces the lost node by the first one that is idle
    fleet, jobs = tmp_path / "fleet.toml", tmp_path / "jobs.csv"
    fleet.write_text(f"units = 25\n{FLEETS[name]}{REPAIR}", "utf-8")
    jobs.write_text(JOB, "utf-8")
    alone = goodput(
        fleet=str(fleet), gpus=160, spares=5, spare_kind="warm", checkpoint_interval_s=7200,
        checkpoint_write_s=0, restart_s=600, duration_s=SECONDS, half_width=0.0005, **same,
    ).results  # fmt: skip
    restarts_S = np.array(
        [
            fleet_schedule(
                jobs=str(jobs), fleet=str(fleet), response=response, until_s=SECONDS, seed=seed
            ).answer.results["restarts"]
            for seed in range(SEEDS)
        ],
        np.float64,
    )  # fmt: skip
    deviation = restarts_S.std(ddof=1)  # of one schedule, and of one replica
    error = deviation * math.sqrt(1.0 / SEEDS + 1.0 / alone["replicas"])
    assert abs(restarts_S.mean() - alone["interruptions"]) < 3.0 * error
    assert error < 0.02 * alone["interruptions"]


def test_a_job_that_is_queued_again_takes_back_its_lemons(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f"units = 25\n{FLEETS['lemons']}{REPAIR}", "utf-8")
    asked = {"fleet": str(fleet), "gpus": 160, "spares": 5, "spare_kind": "warm"}
    asked |= {"checkpoint_interval_s": 7200, "checkpoint_write_s": 0, "restart_s": 600}
    asked |= {"duration_s": SECONDS, "half_width": 0.001, "detection_s": 300}
    anew = goodput(**asked, response="slurm_requeue").results["interruptions"]
    first = goodput(**asked, spare_order="first").results["interruptions"]
    random = goodput(**asked).results["interruptions"]
    assert anew > 1.05 * first > 1.05 * 1.05 * random
