"""Schedule options without effect are refused by name, and accepted otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.schedule import fleet_schedule
from tests.golden.refusals import read_refusals

DRAWN: dict[str, Any] = {"num_jobs": 60, "load": 0.7, "nodes": 8}
FAILING: dict[str, Any] = {"node_mtbf_s": 5e5, "repair_s": 600.0}
FILE: dict[str, Any] = {"jobs": "jobs.csv", "nodes": 8}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,gpus\n0,100,8\n5,100,16\n", "utf-8")
    return tmp_path


def test_each_field_that_needs_another_is_refused_without_it() -> None:
    """Questions and messages are those of `tests/golden/refusals.jsonl`."""
    lines = [line for line in read_refusals() if line.get("function") == "fleet_schedule"]
    refused = {line["message"].partition(" = ")[0] for line in lines}
    fields = verb_fields("fleet schedule")
    needing = {name for name, field in fields.items() if field.row.needs}
    assert needing - refused == {"node_mtbf_s"}  # beside fleet, a contradiction


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
    with pytest.raises(InvalidSpecError, match=rf"jobs.csv .*column {column}"):
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
