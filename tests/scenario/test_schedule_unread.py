"""Schedule options without effect are refused by name, and accepted otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.schedule import fleet_schedule

DRAWN: dict[str, Any] = {"num_jobs": 60, "load": 0.7, "nodes": 8}
FAILING: dict[str, Any] = {"node_mtbf_s": 5e5, "repair_s": 600.0}
FILE: dict[str, Any] = {"jobs": "jobs.csv", "nodes": 8}
DRAIN: dict[str, Any] = {**FAILING, "response": "drain"}
JOBSET: dict[str, Any] = {**FAILING, "response": "jobset"}

# what is asked, which option nothing reads, what makes it count
POWER: dict[str, Any] = {"power_w": 600, "idle_power_w": 80}
UNREAD: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({**DRAWN, "job_format": "sacct"}, "job_format", {}),
    ({**DRAWN, "leave_out_larger": True}, "leave_out_larger", {"max_job_gpus": 128}),
    ({**DRAWN, "backfill": "none", "limit_factor": 3}, "limit_factor", {"backfill": "easy"}),
    ({**DRAWN, "backfill": "none", "depth": 5}, "depth", {"backfill": "conservative"}),
    ({**DRAWN, "half_life_s": 3600}, "half_life_s", {"order": "fair_share"}),
    ({**DRAWN, "shares": "all=2"}, "shares", {"order": "fair_share"}),
    ({**DRAWN, "preemption": "requeue"}, "preemption", {"order": "priority"}),
    (
        {**DRAWN, "required": True, "nodes_per_leaf": 4},
        "required",
        {"together": "leaf", "leave_out_larger": True},
    ),
    (
        {**DRAWN, "nodes_per_domain": 2, "nodes_per_leaf": 4},
        "nodes_per_leaf",
        {"together": "domain"},
    ),
    ({**DRAWN, "response": "jobset"}, "response", FAILING),
    ({**DRAWN, "detection_s": 5}, "detection_s", FAILING),
    ({**DRAWN, **DRAIN, "detection_s": 5}, "detection_s", {"response": "kueue"}),
    ({**DRAWN, "max_restarts": 5}, "max_restarts", FAILING),
    ({**DRAWN, **JOBSET, "patience_s": 5}, "patience_s", {"response": "kueue"}),
    ({**DRAWN, **JOBSET, "fewest_share": 0.5}, "fewest_share", {"response": "slurm_no_kill"}),
    ({**DRAWN, "keeps_place": True}, "keeps_place", FAILING),
    ({**DRAWN, "keeps_place": True, **JOBSET}, "keeps_place", {"max_restarts": 1}),
    ({**DRAWN, "restart_s": 60}, "restart_s", {"order": "priority", "preemption": "requeue"}),
    ({**DRAWN, **DRAIN, "restart_s": 60}, "restart_s", {"response": "slurm_no_kill"}),
    (
        {**DRAWN, "checkpoint_interval_s": 60},
        "checkpoint_interval_s",
        {"order": "priority", "preemption": "cancel"},
    ),
    ({**FILE, "seed": 3}, "seed", FAILING),
    ({**FILE, "load": 0.5}, "load", {"jobs": None, "num_jobs": 9}),
    ({**FILE, "job_rate": 0.5}, "job_rate", {"jobs": None, "num_jobs": 9}),
    ({**FILE, "run_median_s": 60}, "run_median_s", {"jobs": None, "num_jobs": 9, "load": 1}),
    ({**FILE, "run_sigma": 2}, "run_sigma", {"jobs": None, "num_jobs": 9, "load": 1}),
    ({**FILE, "max_job_gpus": 8}, "max_job_gpus", {"jobs": None, "num_jobs": 9, "load": 1}),
    ({**FILE, "zone": "UTC"}, "zone", {}),
    ({**DRAWN, "repair_s": 9}, "repair_s", {"node_mtbf_s": 5e5}),
    ({**DRAWN, "idle_power_w": 80}, "idle_power_w", {"power_w": 600}),
    ({**DRAWN, "repair_power_w": 80}, "repair_power_w", {"power_w": 600, "idle_power_w": 80}),
    ({**DRAWN, "usd_per_kwh": 0.1}, "usd_per_kwh", {"power_w": 600, "idle_power_w": 80}),
    ({**DRAWN, "gco2_per_kwh": 400}, "gco2_per_kwh", {"power_w": 600, "idle_power_w": 80}),
    ({**DRAWN, **POWER, "pue": 1.2}, "pue", {"usd_per_kwh": 0.1}),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,gpus\n0,100,8\n5,100,16\n", "utf-8")
    return tmp_path


def test_each_field_that_needs_another_is_tried_here() -> None:
    fields = verb_fields("fleet schedule")
    assert {name for name, field in fields.items() if field.row.needs} == {
        *(name for _, name, _ in UNREAD),
        "node_mtbf_s",  # beside fleet, a contradiction
    }


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"backfill": "none", "depth": 5}, "backfill=none,easy"),
        ({"depth": 5}, "backfill=none,conservative"),
        ({"shares": "all=2"}, "order=fifo,fair_share"),
        ({"preemption": "requeue"}, "order=fifo,priority"),
        ({**FAILING, "patience_s": 60.0}, "response=slurm_requeue,kueue"),
        ({**FAILING, "fewest_share": 0.5}, "response=slurm_requeue,torchrun"),
        ({"required": True, "nodes_per_leaf": 4}, "together=anywhere,leaf"),
    ],
)
def test_an_option_used_by_one_compared_schedule_is_accepted(
    fields: dict[str, Any], change: str
) -> None:
    found = fleet_schedule(**{**DRAWN, **fields}, compare=[change])
    assert len(found.answer.results["compared"]) == 2


@pytest.mark.parametrize(
    ("column", "cell", "asked"),
    [
        ("limit_s", 300, {"limit_factor": 3.0}),
        ("restart_s", 30, {"restart_s": 60.0, **FAILING}),
        ("checkpoint_interval_s", 30, {"checkpoint_interval_s": 60.0, **FAILING}),
        ("fewest_nodes", 1, {"fewest_share": 0.5, **FAILING, "response": "torchrun"}),
    ],
)
def test_fields_that_the_jobs_set_are_refused(
    folder: Path, column: str, cell: int, asked: dict[str, Any]
) -> None:
    fleet_schedule(**FILE, **asked)
    (folder / "jobs.csv").write_text(f"submit_s,run_s,gpus,{column}\n0,100,8,{cell}\n", "utf-8")
    with pytest.raises(InvalidSpecError, match=f"jobs.csv has a column {column}; omit"):
        fleet_schedule(**FILE, **asked)


def test_checkpoints_have_an_effect_if_a_limit_kills(folder: Path) -> None:
    table = "submit_s,run_s,gpus,limit_s\n0,100,8,{}\n"
    (folder / "jobs.csv").write_text(table.format(100), "utf-8")
    with pytest.raises(InvalidSpecError, match="no job stops before its end"):
        fleet_schedule(**FILE, checkpoint_interval_s=30)
    (folder / "jobs.csv").write_text(table.format(70), "utf-8")
    killed = fleet_schedule(**FILE, checkpoint_interval_s=30).answer
    hours = {row["name"]: row["gpu_hours"] for row in killed.breakdown if row["gpu_hours"]}
    # killed after 70 s, two checkpoints of 30 s are never used
    assert hours["unfinished"] == pytest.approx(60 * 8 / 3600)
    assert hours["lost_work"] == pytest.approx(10 * 8 / 3600)
