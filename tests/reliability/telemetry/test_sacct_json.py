"""`sacct --json` on records written by hand in the shapes of data_parser v0.0.37 to v0.0.42."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats import read_sacct, read_sacct_json
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from tests.reliability.telemetry.support import check_law
from tests.reliability.telemetry.test_sacct import DAY, log, row

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1772409600  # 2026-03-02T00:00:00Z
TRES = [
    {"type": "cpu", "name": "", "id": 1, "count": 96},
    {"type": "gres", "name": "gpu", "id": 1001, "count": 16},
    {"type": "gres", "name": "gpu:h100", "id": 1002, "count": 16},
]


def set_to(number: int | None) -> dict[str, Any]:
    return {"set": number is not None, "infinite": False, "number": number or 0}


def job(number: int = 7, state: Any = ("NODE_FAIL",), **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    times = {"submission": T0, "start": T0 + 60, "end": T0 + 3660, "elapsed": 3600}
    return {
        "job_id": number,
        "state": {"current": list(state) if isinstance(state, tuple) else state, "reason": "None"},
        "time": times | changes.pop("time", {}),
        "nodes": "n[1-2]",
        "tres": {"allocated": TRES, "requested": []},
        "exit_code": {
            "status": ["ERROR"],
            "return_code": set_to(1),
            "signal": {"id": set_to(9), "name": "KILL"},
        },
        "restart_cnt": 0,
        "array": {"job_id": 0, "task_id": set_to(None)},
        "het": {"job_id": 0, "job_offset": set_to(None)},
        "steps": [{"step": {"id": "7.batch"}}],
        **changes,
    }


def document(tmp_path: Path, *jobs: Any, name: str = "jobs.json") -> Path:  # noqa: ANN401
    path = tmp_path / name
    whole = {"meta": {"plugin": {"type": "openapi"}}, "jobs": list(jobs), "errors": []}
    path.write_text(json.dumps(whole, indent=2), "utf-8")
    return path


def test_a_run_by_hand(tmp_path: Path) -> None:
    runs = read_sacct_json([document(tmp_path, job(failed_node="n2"))])
    assert runs.job.text() == ["7"]
    assert runs.state.text() == ["NODE_FAIL"]
    assert (runs.start_s_R[0], runs.end_s_R[0]) == (T0 + 60.0, T0 + 3660.0)
    assert (runs.gpus_R[0], runs.host_count_R[0]) == (16, 2)
    assert (runs.status_R[0], runs.signal_R[0]) == (1, 9)
    assert runs.failed_node.text() == ["n2"]
    check_law(runs.files)


def test_older_shapes_read_the_same(tmp_path: Path) -> None:
    old = job(
        state="NODE_FAIL",
        array={"job_id": 7, "task_id": 3},
        exit_code={"return_code": 1, "signal": {"signal_id": 0}},
        tres={"allocated": "cpu=96,gres/gpu=16"},
    )
    new = job(number=8, array={"job_id": 7, "task_id": set_to(4)}, time={"end": set_to(T0 + 99)})
    part = job(number=10, het={"job_id": 9, "job_offset": set_to(1)})
    runs = read_sacct_json([document(tmp_path, old, new, part)])
    assert runs.job.text() == ["7_3", "7_4", "9+1"]
    assert runs.gpus_R.tolist() == [16, 16, 16]
    assert runs.end_s_R[1] == T0 + 99.0


def test_the_same_run_in_text_and_json_is_the_same(tmp_path: Path) -> None:
    start, end = f"{DAY}00:01:00", f"{DAY}01:01:00"
    text = row("7", "NODE_FAIL", start, end, submit=f"{DAY}00:00:00")
    one = read_sacct([log(tmp_path, text)], zone="UTC")
    two = read_sacct_json([document(tmp_path, job())])
    for name in ("start_s_R", "end_s_R", "submit_s_R", "gpus_R", "host_count_R"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
    window_s = (0.0, one.last_s)
    of_one, of_two = (runs.occupancy().operating_time(window_s) for runs in (one, two))
    assert of_one.by_node() == of_two.by_node() == {"n1": 3600.0, "n2": 3600.0}


def test_waiting_running_and_repeated_runs(tmp_path: Path) -> None:
    running = job(8, ("RUNNING",), time={"end": 0})
    later = job(8, ("COMPLETED",))
    first = document(tmp_path, job(), job(), running, job(9, ("PENDING",)), job(11, ("ODD",)))
    second = document(tmp_path, later, job(12, time={"start": 0}), name="later.json")
    alone = read_sacct_json([first])
    assert math.isnan(alone.end_s_R[alone.job.text().index("8")])
    assert alone.files[0].ignored == {
        "job that never started": 1,
        "state ODD is unknown": 1,
    }
    runs = read_sacct_json([first, second])
    assert sorted(runs.state.text()) == ["COMPLETED", "NODE_FAIL"]
    assert runs.files[0].merged == {"identical to an earlier record": 1}
    assert runs.files[1].merged == {"newer record of an earlier run": 1}
    check_law(runs.files)


def test_ends_of_runs_become_events(tmp_path: Path) -> None:
    path = document(
        tmp_path,
        job(failed_node="n2"),
        job(time={"submission": T0 + 3660, "start": T0 + 7200, "end": T0 + 9000}),
        job(8, ("FAILED",), nodes="n5"),
        job(9, ("COMPLETED",)),
        job(10, ("PREEMPTED",)),
        job(11, ("RUNNING",), time={"end": 0}),
    )
    history = run_failures(read_sacct_json([path]))
    assert sorted(zip(history.cause.text(), history.kind.text(), history.node.text())) == [  # noqa: B905
        ("failed", "unclear", "n5"),
        ("node_fail", "failure", ""),
        ("node_fail", "failure", "n2"),
        ("preempted", "planned", ""),
    ]
    first = history.node.text().index("n2")
    # job 7 ran again at 7200 s, maybe elsewhere: that says nothing of when the node was back
    assert math.isnan(history.recovered_s_E[first])
    assert history.place(first) == f"{path}:1"


TAGS = (
    *("set", "number", "seconds", "nanos", "$date", "current", "start", "end", "submission"),
    *("type", "name", "count", "allocated", "id", "return_code", "signal", "task_id"),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(
        [10**20, 10**400, " ", "9" * 400, "²", "n[1-", "gres/gpu=" + "9" * 400, "2026-03-02T00"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(TAGS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["job_id", "state", "time", "nodes", "tres", "exit_code", "failed_node", "array", "het"]
        ),
        VALUES,
        min_size=1,
    )
)
def test_any_value_is_read_or_refused_with_its_place(
    tmp_path_factory: pytest.TempPathFactory, change: dict[str, Any]
) -> None:
    try:
        runs = read_sacct_json([document(tmp_path_factory.mktemp("values"), job() | change)])
    except InvalidSpecError as problem:
        assert "record 1" in str(problem)  # noqa: PT017 - one that reads is as good
        return
    check_law(runs.files)
    assert runs.size <= 1
