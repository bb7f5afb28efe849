"""Rows of the own format that wait for others: `pause_s`, `after` and `parent`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests, waiting
from perfatlas.serving.traces import TraceWindow, read_requests
from tests.serving.support import check_invariants

Row = dict[str, object]


def row(arrival_s: float, **other: object) -> Row:
    return {"arrival_s": arrival_s, "isl": 5, "osl": 5, "session": "s"} | other


def read(folder: Path, *rows: Row) -> Requests:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    requests = read_requests(path).requests
    check_invariants(requests)
    return requests


def pairs(requests: Requests) -> list[tuple[int, int]]:
    return list(zip(waiting(requests).tolist(), requests.after_E.tolist(), strict=True))


def seconds(ticks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[float]:
    return [tick / TICKS_PER_SECOND if tick >= 0 else -1.0 for tick in ticks.tolist()]


def test_turns_with_a_pause_wait_for_the_previous_turn(tmp_path: Path) -> None:
    rows = [row(0), row(1, session="q", pause_s=9), row(2, pause_s=1.5), row(3)]
    requests = read(tmp_path, *rows)
    # a first turn and a turn without pause_s arrive at arrival_s
    assert seconds(requests.pause_N) == [-1.0, -1.0, 1.5, -1.0]
    assert pairs(requests) == [(2, 0)]


def test_turns_without_pauses_arrive_at_their_times(tmp_path: Path) -> None:
    requests = read(tmp_path, row(0, turn=0), row(2, turn=1))
    assert seconds(requests.pause_N) == [-1.0, -1.0]


def test_rows_wait_for_ids(tmp_path: Path) -> None:
    requests = read(
        tmp_path,
        row(0, id=1),
        row(4, id=2, parent=1, pause_s=0.5),
        row(4, id=3, parent=1),
        row(5, id=4, after=[2]),
        row(6, id=5, after=[1, 3, 4], pause_s=2),
    )
    assert pairs(requests) == [(1, 0), (2, 0), (3, 1), (4, 0), (4, 2), (4, 3)]
    assert seconds(requests.pause_N) == [-1.0, 0.5, 0.0, 0.0, 2.0]


def test_rows_may_precede_those_that_they_wait_for(tmp_path: Path) -> None:
    last, middle = row(1, id="z", isl=7, after=["y"]), row(5, id="y", isl=6, after=["x"])
    requests = read(tmp_path, last, row(2, id="x"), middle)
    assert requests.isl_N.tolist() == [5, 6, 7]
    assert pairs(requests) == [(1, 0), (2, 1)]
    assert seconds(requests.arrival_N) == [2.0, 5.0, 5.0]


def test_every_kind_of_file_has_lists_of_ids(tmp_path: Path) -> None:
    rows = [row(0, id="a"), row(1, id="b", parent="a"), row(2, id="c", after=["a", "b"])]
    first = read(tmp_path, *rows)
    pq.write_table(
        pa.Table.from_pylist([{"parent": None, "after": None} | r for r in rows]),
        tmp_path / "a.parquet",
    )
    (tmp_path / "a.csv").write_text(
        "arrival_s,isl,osl,session,id,parent,after,pause_s\n"
        "0,5,5,s,a,,,\n1,5,5,s,b,a,,0\n2,5,5,s,c,,a b,\n"
    )
    for name in ("a.parquet", "a.csv"):
        other = read_requests(tmp_path / name).requests
        for column, value in first._asdict().items():
            assert np.array_equal(value, getattr(other, column)), (name, column)


def test_windows_drop_what_is_waited_for(tmp_path: Path) -> None:
    read(tmp_path, row(0, id=1), row(1, id=2, after=[1]), row(2, id=3, after=[2], pause_s=1))
    path = tmp_path / "a.jsonl"
    requests = read_requests(path, window=TraceWindow(start_s=1.0)).requests
    assert pairs(requests) == [(1, 0)]
    assert read_requests(path, window=TraceWindow(first=2)).requests.isl_N.size == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row(0, id=1), row(1, id=2, after=[9])], r"line 2: after = 9, which is the id of no row"),
        ([row(0, id=1), row(1, id=2, parent=9)], r"line 2: parent = 9, which is the id of no row"),
        ([row(0, id=1), row(1, id=2, after=[2])], "line 2: waits for itself"),
        (
            [row(0, id=1), row(1, id=2, after=[3]), row(1, id=3, after=[2]), row(2, after=[2])],
            "line 2: waits for itself through line 3; remove",
        ),
        ([row(0, id=1), row(1, id=1, after=[1])], "line 2: id is also that of line 1"),
        ([row(0, id=1), row(1, id=2, after=[1], session="q")], "line 2: waits for line 1"),
        (
            [row(0, id=1, session=""), row(1, after=[1], session="")],
            "line 2: has after or parent but no",
        ),
        ([row(0, id=1), row(1, after=[1], pause_s=-1)], "line 2: pause_s = -1"),
        ([row(0), row(1, pause_s=1e300)], "line 2: pause_s = 1e\\+300 exceeds"),
        ([row(0), row(1, pause_s="soon")], "line 2: pause_s = 'soon'"),
        ([row(0, id=1, turn=0), row(1, after=[1], turn=1)], "line 2: has turn and after"),
        ([row(0, id=1), row(1, after=1)], "line 2: after = 1 is not a list"),
        ([row(0, id=1), row(1, after=[-1])], "line 2: after = "),
        (
            [row(0, id=1), row(1, after="[1")],
            "line 2: after = '\\[1' is not a list of ids, such as",
        ),
        ([row(0, id=1), row(1, id=[1])], "line 2: id = a list of 1 items: expected text or a"),
    ],
)
def test_wrong_waits_are_located(tmp_path: Path, rows: list[Row], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        read(tmp_path, *rows)


def test_long_sessions_are_read(tmp_path: Path) -> None:
    count = 100_000
    rows = [row(0, id=n, after=[n - 1] if n else None) for n in range(count)]
    assert read(tmp_path, *reversed(rows)).after_E.tolist() == list(range(count - 1))


@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_any_acyclic_waits_keep_the_promises_of_requests(
    tmp_path_factory: pytest.TempPathFactory, count: int, draw: random.Random
) -> None:
    rows = [
        row(
            draw.randint(0, 9), id=n, isl=n + 1, after=draw.sample(range(n), draw.randint(n > 0, n))
        )
        for n in range(count)
    ]
    draw.shuffle(rows)
    requests = read(tmp_path_factory.mktemp("waits"), *rows)
    name_N = requests.isl_N - 1
    found = {(int(name_N[after]), int(name_N[before])) for after, before in pairs(requests)}
    assert found == {(int(str(r["id"])), b) for r in rows for b in r["after"]}  # type: ignore[attr-defined]
