"""Jobs and failures of one's own tables, and generated jobs: by hand, by distribution, and
refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import write_table
from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import Cause, Fleet
from perfatlas.reliability.jobs import model
from perfatlas.reliability.jobs.failures import draw_failures
from perfatlas.reliability.jobs.model.generated import KINDS, MAX_S
from perfatlas.reliability.jobs.run import schedule
from perfatlas.reliability.jobs.traces import read_failures, read_job_table

TABLE = """\
submit_s,run_s,gpus,nodes,limit_s,user,kind,priority,requeue,checkpoint_interval_s
105.5,60,16,2,600,ann,train,5,true,30
100,1e2,8,1,,bob,train,,no,
90,50,0,1,,ann,shell,,,
101,,8,1,,ann,shell,,,
"""


def _file(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_table_becomes_jobs_in_order_of_submission(tmp_path: Path) -> None:
    trace = read_job_table(_file(tmp_path, TABLE))
    assert trace.text() == (
        "4 rows, 2 jobs, 1 not in the order of submission, 2 ignored "
        "(1 no GPUs requested, first at 4; 1 never ran, first at 5)"
    )
    jobs = trace.jobs
    assert trace.start_s == 100.0
    assert jobs.submit_J.tolist() == [0, 5_500]
    assert jobs.run_J.tolist() == [100_000, 60_000]
    told = (jobs.limit_J, jobs.priority_J, jobs.requeue_J, jobs.checkpoint_J, jobs.row_J)
    found = [None if column is None else column.tolist() for column in told]
    assert found == [[model.NEVER, 600_000], [0, 5], [False, True], [0, 30_000], [3, 2]]
    assert (jobs.users, jobs.kinds) == (("bob", "ann"), ("train",))
    assert schedule(jobs, model.Cluster(nodes=3), model.Policy(backfill="easy")).states == {
        "completed": 2
    }


def test_every_format_of_a_table_gives_the_same_jobs(tmp_path: Path) -> None:
    columns = {"submit_s": [0.0, 3.5], "run_s": [60.0, 1.25], "gpus": [8, 16]}
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        write_table(tmp_path / name, columns)
        jobs = read_job_table(tmp_path / name).jobs
        assert jobs.submit_J.tolist() == [0, 3_500], name
        assert jobs.run_J.tolist() == [60_000, 1_250], name
        assert jobs.gpus_J.tolist() == [8, 16], name
        assert jobs.row(0) == (2 if name == "t.csv" else 1)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    folder = tmp_path / "jobs.csv"
    folder.mkdir()
    with pytest.raises(InvalidSpecError, match="is a folder"):
        read_job_table(folder)


def test_failures_are_read_in_the_clock_of_the_jobs(tmp_path: Path) -> None:
    text = "time_s,node,repair_s,width,drain\n150,2,,2,\n120,0,60,,true\n90,1,10,,\n"
    found = read_failures(_file(tmp_path, text), nodes=4, start_s=100.0)
    assert found.before == 1
    it = found.failures
    told = (it.time_X, it.node_X, it.repair_X, it.width_X, it.drain_X)
    columns = [np.asarray(column).tolist() for column in told]
    assert columns == [[20_000, 50_000], [0, 2], [60_000, -1], [1, 2], [True, False]]


def test_a_node_that_is_out_at_the_first_submission_begins_so(tmp_path: Path) -> None:
    # The clock begins at 100: node 0 is back at 130 s, 30 s on; node 1 never; node 2 was at 95 s.
    text = "time_s,node,repair_s\n80,0,50\n10,1,\n90,2,5\n140,0,9\n"
    found = read_failures(_file(tmp_path, text), nodes=4, start_s=100.0)
    assert (found.before, found.out) == (1, 2)
    it = found.failures
    columns = [np.asarray(column).tolist() for column in (it.time_X, it.node_X, it.repair_X)]
    assert columns == [[0, 0, 40_000], [1, 0, 0], [-1, 30_000, 9_000]]
    jobs = model.Jobs(
        submit_J=model.ticks([0, 0]), run_J=model.ticks([10, 5]), gpus_J=np.array([16, 24])
    )
    outcome = schedule(jobs, model.Cluster(nodes=4), model.Policy(), failures=it)
    assert (outcome.column("started") / 1000).tolist() == [0.0, 30.0]  # on 2 and 3; 0, 2 and 3


def test_a_list_of_failures_does_what_its_drawn_like_does(tmp_path: Path) -> None:
    # 2 nodes, one job of 100 s on node 0; it fails at 40 s, is noticed at once, restarts on node 1.
    text = "time_s,node,repair_s\n40,0,1000\n"
    failures = read_failures(_file(tmp_path, text), nodes=2).failures
    jobs = model.Jobs(submit_J=model.ticks([0]), run_J=model.ticks([100]), gpus_J=np.array([8]))
    outcome = schedule(jobs, model.Cluster(nodes=2), model.Policy(), failures=failures)
    assert outcome.column("ended").tolist() == [140_000]


def _mix(**fields: float | None) -> model.Mix:
    plain = {
        "jobs": 4_000, "job_rate": None, "load": 0.8, "run_median_s": 600.0, "run_sigma": 1.0,
        "max_job_gpus": 64, "seed": 3,
    }  # fmt: skip
    return model.Mix(**(plain | fields))  # type: ignore[arg-type]


@given(load=st.floats(0.01, 10.0), largest=st.integers(1, 500), seed=st.integers(0, 99))
def test_generated_jobs_ask_for_the_load_that_was_given(
    load: float, largest: int, seed: int
) -> None:
    cluster = model.Cluster(nodes=64)
    jobs = model.generate_jobs(_mix(load=load, max_job_gpus=largest, seed=seed), cluster)
    gpu_s = float((jobs.gpus_J * jobs.run_J).sum()) / 1_000
    # the largest gap of 4,000 uniform draws is below 1% of the span
    assert gpu_s / cluster.gpus / (jobs.submit_J[-1] / 1_000) == pytest.approx(load, rel=0.01)
    assert int(jobs.gpus_J.max()) <= largest
    assert set(jobs.gpus_J.tolist()) <= {2**n for n in range(9)}
    assert bool((np.diff(jobs.submit_J) >= 0).all())


def test_each_size_is_half_as_frequent_as_the_one_before() -> None:
    jobs = model.generate_jobs(_mix(jobs=100_000), model.Cluster(nodes=64))
    counts = np.array([(jobs.gpus_J == 2**n).sum() for n in range(7)])
    expected = 100_000 * 0.5 ** np.arange(7) / (0.5 ** np.arange(7)).sum()
    assert np.abs(counts - expected).max() < 5.0 * np.sqrt(expected.max())
    assert float(np.median(jobs.run_J)) / 1_000 == pytest.approx(600.0, rel=0.03)


def test_a_rate_is_kept_and_kinds_follow_the_node() -> None:
    jobs = model.generate_jobs(_mix(load=None, job_rate=0.5, jobs=20_000), model.Cluster(nodes=64))
    assert jobs.submit_J[-1] / 1_000 == pytest.approx(40_000.0, rel=0.04)
    assert jobs.kinds == KINDS
    assert jobs.kind_J is not None
    kinds = {int(g): int(k) for g, k in zip(jobs.gpus_J, jobs.kind_J, strict=True)}
    assert kinds == {1: 0, 2: 0, 4: 0, 8: 1, 16: 2, 32: 2, 64: 2}


def test_the_same_seed_gives_the_same_jobs_and_none_runs_for_ever() -> None:
    first, again = (
        model.generate_jobs(_mix(run_sigma=10.0), model.Cluster(nodes=64)) for _ in range(2)
    )
    assert first.run_J.tolist() == again.run_J.tolist()
    assert int(first.run_J.max()) == MAX_S * 1_000


def test_jobs_that_would_come_over_centuries_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="use a larger rate or load"):
        model.generate_jobs(_mix(load=1e-7), model.Cluster(nodes=64))


def test_failures_of_a_longer_time_begin_with_those_of_a_shorter() -> None:
    cause = Cause(name="node", lifetime=Exponential(mean_s=1_000.0), per_unit=1.0)
    fleet, cluster = Fleet(units=16, causes=(cause,)), model.Cluster(nodes=16)
    short, long = (draw_failures(fleet, cluster, horizon_s=s, seed=5) for s in (5e3, 5e4))
    size = short.time_X.shape[0]
    assert 40 < size < 160 < long.time_X.shape[0]  # 80 and 800 expected
    assert long.time_X[:size].tolist() == short.time_X.tolist()
    assert long.node_X[:size].tolist() == short.node_X.tolist()


def test_what_never_fits_is_what_a_schedule_refuses() -> None:
    jobs = model.Jobs(
        submit_J=model.ticks([0, 0, 0]),
        run_J=model.ticks([9, 9, 9]),
        gpus_J=np.array([8, 64, 24]),
        nodes_J=np.array([1, 8, 2]),
    )
    never_J = model.never_fit(jobs, model.Cluster(nodes=4), model.Policy())
    assert never_J.tolist() == [False, True, True]  # 8 of 4 nodes; 12 GPUs on a node of 8
    kept = jobs.take(~never_J)
    assert (kept.size, kept.gpus_J.tolist()) == (1, [8])
    assert schedule(kept, model.Cluster(nodes=4), model.Policy()).states == {"completed": 1}
