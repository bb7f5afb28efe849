"""Traces by the schemas of their publishers: rows of their READMEs, and rows that are not jobs."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.jobs.model import Cluster, Policy
from perfatlas.reliability.jobs.run import schedule
from perfatlas.reliability.jobs.traces import read_jobs, runs_as_jobs
from perfatlas.reliability.jobs.traces.csv_traces import TASK_COLUMNS
from perfatlas.reliability.jobs.traces.reading import Reading, Row

FOLDER = Path(__file__).parent / "traces"
HELIOS = (FOLDER / "helios.csv").read_text("utf-8")
KALOS = (FOLDER / "acme_kalos.csv").read_text("utf-8")
TASKS = (FOLDER / "alibaba_tasks.csv").read_text("utf-8")
PHILLY: list[dict[str, Any]] = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            {
                "start_time": "2017-10-07 01:12:09",
                "end_time": "2017-10-07 01:13:23",
                "detail": [{"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}],
            },
            {
                "start_time": "2017-10-07 01:13:30",
                "end_time": "2017-10-09 06:53:12",
                "detail": [{"ip": "m412", "gpus": [f"gpu{n}" for n in range(8)]}],
            },
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    },
    {"status": "Killed", "vc": "a", "jobid": "b", "attempts": [],
     "submitted_time": "2017-10-07 01:11:39", "user": "x"},
    {"status": "Pass", "vc": "a", "jobid": "c", "submitted_time": "2017-10-07 01:11:39",
     "user": "x", "attempts": [{"start_time": "2017-10-07 01:13:30", "end_time": None,
                                "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
]  # fmt: skip


def _file(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text, "utf-8")
    return path


def test_helios_rows_become_jobs_in_order_of_submission(tmp_path: Path) -> None:
    trace = read_jobs(_file(tmp_path, HELIOS), "helios")
    assert trace.text() == (
        "5 rows, 3 jobs, 1 not in the order of submission, 2 ignored "
        "(1 no GPUs requested, first at 5; 1 never ran, first at 6)"
    )
    jobs = trace.jobs
    assert jobs.submit_J.tolist() == [0, 26_000, 27_000]
    assert jobs.run_J.tolist() == [36_848_000, 249_000, 675_223_000]
    assert jobs.gpus_J.tolist() == [1, 4, 16]
    assert jobs.nodes_J is not None
    assert jobs.nodes_J.tolist() == [1, 1, 2]
    assert jobs.row_J is not None
    assert jobs.row_J.tolist() == [2, 4, 3]
    assert jobs.kinds == ("COMPLETED", "FAILED", "CANCELLED")
    assert (jobs.users, trace.moved) == (("uXBbc", "uVMrF", "uzqls"), 1)
    outcome = schedule(jobs, Cluster(nodes=3), Policy())
    assert outcome.states == {"completed": 3}


def test_acme_times_have_zones_and_run_times_start_at_the_start(tmp_path: Path) -> None:
    jobs = read_jobs(_file(tmp_path, KALOS), "acme").jobs
    assert jobs.run_J.tolist() == [8_000, 70_000]  # not the column duration, 18 and 82 s
    assert jobs.submit_J.tolist() == [0, (27 * 60 + 44) * 1000]
    assert jobs.kinds == ("Other", "Pretrain")


def test_alibaba_tasks_with_or_without_a_header(tmp_path: Path) -> None:
    header = ",".join(TASK_COLUMNS) + "\n"
    bare = read_jobs(_file(tmp_path, TASKS), "alibaba_gpu_v2020")
    headed = read_jobs(_file(tmp_path, header + TASKS), "alibaba_gpu_v2020")
    for trace in (bare, headed):
        assert trace.jobs.gpus_J.tolist() == [3, 1]  # 6 x 50%, and one half rounded up
        assert trace.jobs.run_J.tolist() == [300_000, 38_000]
        assert sum(trace.ignored.values()) == 3
        assert trace.total == 5
    assert bare.ignored == {
        "no GPUs requested": 1,
        "still running, or without a recorded end": 1,
        "never ran": 1,
    }


def test_philly_adds_up_attempts(tmp_path: Path) -> None:
    trace = read_jobs(_file(tmp_path, json.dumps(PHILLY)), "philly")
    first, second = 74, 2 * 86400 + 5 * 3600 + 39 * 60 + 42
    assert trace.jobs.run_J.tolist() == [(first + second) * 1000]
    assert (trace.jobs.gpus_J.tolist(), trace.total) == ([8], 3)
    assert sum(trace.ignored.values()) == 2


def test_a_philly_trace_is_read_job_by_job(tmp_path: Path) -> None:
    padded = json.dumps(PHILLY[0] | {"note": "x" * 20_000})
    path = _file(tmp_path, f"[{','.join([padded] * 1000)}]")
    tracemalloc.start()
    try:
        assert read_jobs(path, "philly").total == 1000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 6e6


def test_runs_of_accounting_become_jobs() -> None:
    runs = SimpleNamespace(
        submit_s_R=np.array([5.0, 0.0, 1.0, 2.0]),
        start_s_R=np.array([6.0, 1.0, 2.0, np.nan]),
        end_s_R=np.array([10.0, np.nan, 4.0, np.nan]),
        gpus_R=np.array([16, 8, 0, 8]),
        host_count_R=np.array([2, 1, 1, 1]),
    )
    trace = runs_as_jobs(runs, ["ann"] * 4, ["COMPLETED", "RUNNING", "FAILED", "PENDING"])
    assert trace.jobs.run_J.tolist() == [4000]
    assert trace.ignored == {
        "still running, or without a recorded end": 1,
        "no GPUs requested": 1,
        "never ran": 1,
    }


@pytest.mark.parametrize(
    ("name", "text", "format_name"),
    [
        ("trace.csv.gz", HELIOS, "helios"),
        ("trace.csv.gz", KALOS, "acme"),
        ("trace.csv.gz", TASKS, "alibaba_gpu_v2020"),
        ("trace.json.gz", json.dumps(PHILLY), "philly"),
        ("trace.csv.gz", "submit_s,run_s,gpus\n3,5,2\n1,5,8\n", "perfatlas"),
        ("trace.jsonl.gz", '{"submit_s": 1, "run_s": 5, "gpus": 2}\n', "perfatlas"),
    ],
)
def test_a_compressed_trace_is_the_trace(
    tmp_path: Path, name: str, text: str, format_name: str
) -> None:
    plain, packed = tmp_path / name.removesuffix(".gz"), tmp_path / name
    plain.write_text(text, "utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    found, expected = read_jobs(packed, format_name), read_jobs(plain, format_name)
    assert found.text() == expected.text()
    for column in ("submit_J", "run_J", "gpus_J", "row_J"):
        assert getattr(found.jobs, column).tolist() == getattr(expected.jobs, column).tolist()
    packed.write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(InvalidSpecError, match=rf"{name}'(:| is) truncated or damaged.*again"):
        read_jobs(packed, format_name)


def test_a_compressed_line_without_end_is_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(HELIOS.encode() + b"0" * (1 << 24)))
    with pytest.raises(InvalidSpecError, match="row 7: the line exceeds 131,072 characters"):
        read_jobs(path, "helios")
    path.write_bytes(gzip.compress(HELIOS.encode() + b'"' + b"0\n" * (1 << 20)))
    with pytest.raises(InvalidSpecError, match="not CSV: field larger than field limit"):
        read_jobs(path, "helios")


def test_more_jobs_than_memory_holds_are_refused() -> None:
    reading = Reading(Path("t.csv"), most=1)
    row = Row(2, 0.0, 1.0, 1, 1, "ann", "COMPLETED", "COMPLETED")
    reading.add(row)
    with pytest.raises(
        InvalidSpecError, match=r"'t\.csv', row 3: more than 1 job: schedule a part"
    ):
        reading.add(row._replace(line=3))


def test_jobs_recorded_as_not_completed_are_told_with_their_share(tmp_path: Path) -> None:
    # 249 s x 4 GPUs failed, 36,848 s x 1 completed, 675,223 s x 16 cancelled
    trace = read_jobs(_file(tmp_path, HELIOS), "helios")
    assert trace.ends == {"COMPLETED": 1, "FAILED": 1, "CANCELLED": 1}
    whole = 249 * 4 + 36_848 + 675_223 * 16
    assert trace.cut_short == pytest.approx(1.0 - 36_848 / whole)
    assert "completed: 1 CANCELLED, 1 FAILED, 99.7% of the GPU time;" in trace.ends_text()
    completed = HELIOS.replace("FAILED", "COMPLETED").replace("CANCELLED", "COMPLETED")
    assert read_jobs(_file(tmp_path, completed), "helios").ends_text() == ""
