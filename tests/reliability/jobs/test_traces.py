"""Runs of Slurm accounting as jobs, and compressed tables of jobs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model import Cluster, Policy
from perfatlas.reliability.jobs.run import schedule
from perfatlas.reliability.jobs.traces import read_job_table, runs_as_jobs
from perfatlas.reliability.telemetry.formats import read_sacct

# job, state, submission, start, end, GPUs, nodes
RUNS = """JobID|State|Submit|Start|End|AllocTRES|NodeList
1|COMPLETED|2020-06-09T18:41:01|2020-06-09T18:41:04|2020-06-10T04:55:12|gres/gpu=1|n1
2|CANCELLED|2020-06-09T18:41:28|2020-06-09T18:41:32|2020-06-17T14:15:15|gres/gpu=16|n[2-3]
2.batch|CANCELLED|2020-06-09T18:41:28|2020-06-09T18:41:32|2020-06-17T14:15:15|gres/gpu=16|n2
3|FAILED|2020-06-09T18:41:27|2020-06-09T18:41:33|2020-06-09T18:45:42|gres/gpu=4|n4
4|COMPLETED|2020-06-09T18:41:28|2020-06-09T18:41:34|2020-06-09T18:42:34|cpu=4|n4
5|RUNNING|2020-06-09T18:41:28|2020-06-09T18:41:35|Unknown|gres/gpu=8|n4
"""


def test_runs_of_accounting_become_jobs_in_order_of_submission(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(RUNS, "utf-8")
    trace = runs_as_jobs(read_sacct([path], zone="UTC"))
    assert trace.text() == (
        "7 rows, 3 jobs, 1 not in the order of submission, 4 ignored (1 no GPUs requested, first"
        " at 6; 1 still running, or without a recorded end, first at 7; 1 header, first at 1; 1"
        " step of a job, first at 4)"
    )
    jobs = trace.jobs
    assert jobs.submit_J.tolist() == [0, 26_000, 27_000]
    assert jobs.run_J.tolist() == [36_848_000, 249_000, 675_223_000]
    assert jobs.gpus_J.tolist() == [1, 4, 16]
    assert jobs.nodes_J is not None
    assert jobs.nodes_J.tolist() == [1, 1, 2]
    assert jobs.row_J is not None
    assert jobs.row_J.tolist() == [2, 5, 3]
    assert jobs.kinds == ("COMPLETED", "FAILED", "CANCELLED")
    assert schedule(jobs, Cluster(nodes=3), Policy()).states == {"completed": 3}
    # 249 s x 4 GPUs failed, 36,848 s x 1 completed, 675,223 s x 16 cancelled
    assert trace.ends == {"COMPLETED": 1, "FAILED": 1, "CANCELLED": 1}
    whole = 249 * 4 + 36_848 + 675_223 * 16
    assert trace.cut_short == pytest.approx(1.0 - 36_848 / whole)
    assert "completed: 1 FAILED, 1 CANCELLED, 99.7% of the GPU time;" in trace.ends_text()


def test_accounting_without_jobs_on_gpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(RUNS.replace("gres/gpu=", "cpu="), "utf-8")
    with pytest.raises(InvalidSpecError, match=r"no jobs.*4 no GPUs"):
        runs_as_jobs(read_sacct([path], zone="UTC"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trace.csv.gz", "submit_s,run_s,gpus\n3,5,2\n1,5,8\n"),
        ("trace.jsonl.gz", '{"submit_s": 1, "run_s": 5, "gpus": 2}\n'),
    ],
)
def test_a_compressed_trace_is_the_trace(tmp_path: Path, name: str, text: str) -> None:
    plain, packed = tmp_path / name.removesuffix(".gz"), tmp_path / name
    plain.write_text(text, "utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    found, expected = read_job_table(packed), read_job_table(plain)
    assert found.text() == expected.text()
    for column in ("submit_J", "run_J", "gpus_J", "row_J"):
        assert getattr(found.jobs, column).tolist() == getattr(expected.jobs, column).tolist()
    packed.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(InvalidSpecError, match=rf"{name}'(:| is) truncated or damaged.*again"):
        read_job_table(packed)
