"""`fleet_schedule`: worked by hand, laws between its numbers, refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.schedule import fleet_schedule

# The jobs of the example of `schedule`: 8 GPUs for 100 s, 16 for 50 s, 8 for 10 s, on two nodes.
TABLE = "submit_s,run_s,gpus,limit_s\n0,100,8,100\n1,50,16,50\n2,10,8,10\n"
MANY: dict[str, Any] = {"num_jobs": 3_000, "load": 0.9, "nodes": 48, "run_median_s": 900.0}
FAILING: dict[str, Any] = {"node_mtbf_s": 4e5, "repair_s": 7200.0}


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE, "utf-8")
    return str(path)


def test_backfill_is_compared_on_the_same_jobs(table: str) -> None:
    # FIFO: the second waits for both nodes until 100 s, the third until 150 s. EASY: the third runs
    # from 2 to 12 s on the free node, before the promise at 100 s.
    found = fleet_schedule(jobs=table, nodes=2, compare=["backfill=none,easy"])
    none, easy = found.answer.results["compared"]
    assert none["wait_s"]["mean"] == pytest.approx((0.0 + 99.0 + 148.0) / 3)
    assert easy["wait_s"]["mean"] == pytest.approx((0.0 + 99.0 + 0.0) / 3)
    assert (none["duration_s"], easy["duration_s"]) == (160.0, 150.0)
    assert found.answer.results["wait_s"] == easy["wait_s"]  # easy is the default
    assert found.answer.results["backfilled"] == 1
    rows = found.per_job()
    assert rows["start_s"] == [0.0, 100.0, 2.0]
    assert rows["row"] == [2, 3, 4]
    # 150 s x 16 GPUs, of which 100 x 8 + 50 x 16 + 10 x 8 work
    assert found.answer.results["allocated_share"] == pytest.approx(1680 / 2400)


def test_a_listed_failure_restarts_a_job_from_its_checkpoint(tmp_path: Path) -> None:
    # Node 0 fails at 40 s and is noticed at 45 s; 30 of 40 s are saved. Node 1 has run the third
    # job, so the first restarts there at 45 s: 10 s restart, 70 s left, done at 125 s; limit 1,000.
    jobs = tmp_path / "long.csv"
    jobs.write_text(TABLE.replace(",100\n", ",1000\n").replace("1,50,16,50\n", ""), "utf-8")
    failures = tmp_path / "failures.csv"
    failures.write_text("time_s,node,repair_s\n40,0,\n", "utf-8")
    found = fleet_schedule(
        jobs=str(jobs), nodes=2, failures=str(failures), detection_s=5, restart_s=10,
        checkpoint_interval_s=30,
    )  # fmt: skip
    assert found.per_job()["end_s"][0] == 125.0
    results = found.answer.results
    assert (results["failures"], results["restarts"]) == (1, 1)
    assert results["lost_gpu_hours"] == pytest.approx(10 * 8 / 3600)


@pytest.mark.parametrize("response", ["slurm_requeue", "slurm_no_kill", "jobset", "torchrun"])
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_every_gpu_hour_is_in_one_bucket(response: str, backfill: str) -> None:
    asked: dict[str, Any] = {**MANY, **FAILING, "backfill": backfill}
    if backfill != "none":
        asked["depth"] = 20
    found = fleet_schedule(**asked, response=response, restart_s=60.0)
    rows = found.answer.breakdown
    results = found.answer.results
    assert math.fsum(row["share"] for row in rows) == pytest.approx(1.0, abs=1e-12)
    hours = results["gpus"] * results["duration_s"] / 3600.0
    assert math.fsum(row["gpu_hours"] for row in rows) == pytest.approx(hours)
    assert sum(results["states"].values()) == results["jobs"]
    assert sum(row["jobs"] for row in results["classes"]) == results["jobs"]
    shares = {row["name"]: row["share"] for row in rows}
    for name in ("productive", "under_way", "unfinished"):
        assert results[f"{name}_share"] == shares[name]
    ended_early = sum(results["states"].get(name, 0) for name in ("node_fail", "timeout"))
    assert (shares["unfinished"] > 0.0) <= (ended_early > 0)
    lost = next(row["gpu_hours"] for row in rows if row["name"] == "lost_work")
    assert lost == pytest.approx(results["lost_gpu_hours"])
    columns = found.per_job()
    assert sum(columns["restarts"]) == results["restarts"]
    kept = math.fsum(row["gpu_hours"] for row in rows if f"{row['name']}_share" in results)
    # a job on fewer nodes than it asked for ends up to a tick after its work
    assert sum(columns["work_gpu_hours"]) == pytest.approx(kept, rel=1e-6)
    assert results["allocated_share"] <= 1.0


def test_one_gpu_per_job_is_a_queue_with_many_servers() -> None:
    # M/M/c would need exponential run times; a lognormal of sigma 0 is M/D/c: with c = 8 servers at
    # load 0.5 the wait is at most that of M/M/c, C / (c mu - lambda), by Erlang C.
    found = fleet_schedule(
        num_jobs=40_000, job_rate=0.04, run_median_s=100.0, run_sigma=0.0, max_job_gpus=1, nodes=1,
        backfill="none",
    )  # fmt: skip
    offered, servers = 4.0, 8
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    waits = last / (sum(terms) + last)
    mean_s = waits / (servers / 100.0 - 0.04)
    told = found.answer.results["wait_s"]["mean"]
    # M/D/c waits about half as long (Kingman's factor (1 + 0)/2), a little more at low load
    assert 0.4 * mean_s < told < 0.75 * mean_s


def test_compared_schedules_meet_the_same_failures() -> None:
    found = fleet_schedule(**MANY, **FAILING, until_s=50_000, compare=["response=jobset,drain"])
    again = fleet_schedule(**MANY, **FAILING, until_s=50_000, response="drain")
    # alone they are drawn for another time, and begin with the same ones all the same
    compared = fleet_schedule(**MANY, **FAILING, compare=["until_s=50000,90000"])
    alone = fleet_schedule(**MANY, **FAILING, until_s=50_000)
    first, _ = compared.answer.results["compared"]
    assert first["restarts"] == alone.answer.results["restarts"] > 0
    assert first["wait_s"] == alone.answer.results["wait_s"]
    drained = found.answer.results["compared"][1]
    assert drained["restarts"] == 0
    for name in ("wait_s", "productive_share", "allocated_share"):
        assert drained[name] == again.answer.results[name]


def test_jobs_that_can_never_run_are_refused_or_counted(table: str) -> None:
    with pytest.raises(InfeasibleError, match=r"row 3: .*16 GPUs.*2 nodes"):
        fleet_schedule(jobs=table, nodes=1)
    found = fleet_schedule(jobs=table, nodes=1, leave_out_larger=True)
    assert found.answer.results["jobs"] == 2
    assert any("can never run here: 1 of 3 jobs" in text for text in found.answer.warnings)
    with pytest.raises(InfeasibleError, match="none of 3 jobs"):
        fleet_schedule(jobs=table, nodes=1, gpus_per_node=4, leave_out_larger=True)
