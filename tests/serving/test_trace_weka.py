"""Sessions of agents in the format of kv-cache-tester."""

from __future__ import annotations

import csv
import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import SchedulerLimits
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests, session_pool
from perfatlas.serving.run.simulate import run
from perfatlas.serving.traces import TraceWindow, read_requests
from tests.serving.serving_support import flat_prices
from tests.serving.support import check_invariants, hashes_of, hit_share, request_trace

SAMPLE = "../agentic/weka_coding_sessions.jsonl.gz"


def call(t: float, isl: int, ids: list[int], **other: object) -> dict[str, object]:
    row = {"t": t, "type": "n", "model": "big", "in": isl, "out": 5, "hash_ids": ids}
    return row | {"api_time": 1.0} | other


def container(t: float, duration_s: float, *rows: object) -> dict[str, object]:
    return {"t": t, "type": "subagent", "duration_ms": 1e3 * duration_s, "requests": list(rows)}


def session(*rows: object, **other: object) -> dict[str, Any]:
    return {"block_size": 64, "hash_id_scope": "local", "requests": list(rows)} | other


def write(folder: Path, *sessions: object) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in sessions))
    return path


def waits(requests: Requests) -> list[list[int]]:
    first = requests.after_first_N
    return [requests.after_E[a:b].tolist() for a, b in pairwise(first)]


def pauses_s(requests: Requests) -> list[float]:
    return [pause / TICKS_PER_SECOND if pause >= 0 else -1.0 for pause in requests.pause_N]


AGENTS = session(
    call(0.0, 130, [1, 2]),
    # ended at 9.0 s after 7.5 s: began 0.5 s after the first call
    container(9.0, 7.5, call(0.0, 64, [7], model="small"), call(2.0, 130, [7, 8], think_time=1.0)),
    call(11.0, 200, [1, 2, 3], think_time=10.0),
    call(20.0, 200, [1, 2, 4], think_time=8.0),
)


def test_the_call_after_a_sub_agent_waits_for_its_end(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, AGENTS), "weka")
    check_invariants(trace.requests)
    assert waits(trace.requests) == [[], [0], [1], [0, 2], [3]]
    # think_time of the call after a sub-agent counts from before it: its pause is 11 - 9 s
    assert pauses_s(trace.requests) == [-1.0, 0.5, 1.0, 2.0, 8.0]
    assert trace.requests.arrival_N.tolist() == [
        round(s * TICKS_PER_SECOND) for s in (0.0, 1.5, 3.5, 11.0, 20.0)
    ]
    assert len(trace.warnings) == 1
    assert "1 of 5 requests (1 sub-agent) to another model" in trace.warnings[0]


def test_prompts_share_hashes_in_their_session_only(tmp_path: Path) -> None:
    requests = read_requests(write(tmp_path, AGENTS, AGENTS), "weka").requests
    check_invariants(requests)
    prompts = [hashes_of(requests, row).tolist() for row in range(10)]
    mains = [p for p, s in zip(prompts, requests.session_N, strict=True) if s == 0]
    assert mains[3][:2] == mains[0][:2]  # the partial last block of a prompt is its own
    assert len({p[-1] for p in mains}) == 5
    other = {h for p, s in zip(prompts, requests.session_N, strict=True) if s == 1 for h in p}
    assert not other & {h for p in mains for h in p}


def test_an_id_of_the_started_block_is_shared(tmp_path: Path) -> None:
    rows = [call(0, 100, [1, 2]), call(5, 100, [1, 2]), call(9, 128, [1, 2])]
    requests = read_requests(write(tmp_path, session(*rows)), "weka").requests
    prompts = [hashes_of(requests, row).tolist() for row in range(3)]
    assert prompts[0] == prompts[1] == prompts[2]


def test_times_of_sub_agents_may_be_absolute_and_nested(tmp_path: Path) -> None:
    inner = container(5.0, 1.0, call(4.2, 64, [9]))
    rows = [
        call(0.0, 64, [1]),
        # the first nested t is later than t of its container: times are of the session
        container(1.5, 0.5, call(3.0, 64, [7]), inner, call(6.0, 64, [7])),
        call(9.0, 64, [1]),
        container(12.0, 1.0, call(0.0, 64, [5])),
    ]
    requests = read_requests(write(tmp_path, session(*rows)), "weka").requests
    check_invariants(requests)
    assert waits(requests) == [[], [0], [1], [1, 2], [0, 3], [4]]
    assert (requests.arrival_N / TICKS_PER_SECOND).tolist() == [0.0, 3.0, 4.0, 6.0, 9.0, 11.0]


def test_files_of_a_folder_are_sessions(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(AGENTS, indent=1))
    (tmp_path / "a.json.gz").write_bytes(
        gzip.compress(json.dumps(session(call(0, 9, []))).encode())
    )
    requests = read_requests(tmp_path, "weka").requests
    assert requests.session_N.tolist() == [0, 1, 1, 1, 1, 1]
    assert read_requests(tmp_path / "b.json", "weka").requests.isl_N.size == 5
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(InvalidSpecError, match=r"c\.json': not JSON"):
        read_requests(tmp_path, "weka")


def test_windows_drop_what_is_waited_for(tmp_path: Path) -> None:
    path = write(tmp_path, AGENTS)
    later = read_requests(path, "weka", TraceWindow(start_s=3.0)).requests
    check_invariants(later)
    assert waits(later) == [[], [0], [1]]
    trace = read_requests(path, "weka", TraceWindow(first=2))
    assert trace.requests.isl_N.tolist() == [130, 64]
    assert trace.partial_N.all()
    assert not read_requests(path, "weka").partial_N.size


def test_calls_without_tokens_count_as_one(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, session(call(0, 0, [], out=0))), "weka")
    assert (trace.requests.isl_N[0], trace.requests.osl_N[0]) == (1, 1)
    assert "1 request with in = 0: 1 token is used" in trace.warnings


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (call(-1.0, 9, []), r"line 2, request 1: t = -1"),
        (call("x", 9, []), r"t = 'x'"),  # type: ignore[arg-type]
        (call(1e300, 9, []), r"t = 1e\+300"),
        (call(0, 9, [], **{"in": 9.5}), r"in = 9\.5"),
        (call(0, 9, [], out=10**30), r"out = 1000"),
        (call(0, 900, [1]), r"1 hash_ids for 900 tokens; blocks of 64 tokens require 14"),
        (call(0, 64, [-1]), r"hash_ids must be"),
        (call(0, 64, ["a"]), r"hash_ids must be"),  # type: ignore[list-item]
        (call(0, 64, [2**70]), r"hash_ids must be"),
        (call(0, 128, [[1], [2, 3]]), r"hash_ids must be"),  # type: ignore[list-item]
        (call(0, 64, None), r"hash_ids must be"),  # type: ignore[arg-type]
        (call(0, 64, [1], api_time="long"), r"api_time = 'long'"),
        (container(0, 1, "text"), r"request 1\.1: 'text' is not an object"),
        ({"type": "subagent", "t": 1, "duration_ms": 1}, r"request 1: missing list 'requests'"),
        ({"type": "subagent", "t": 1, "requests": []}, r"missing 'duration_ms'"),
        (7, r"request 1: 7 is not an object"),
    ],
)
def test_wrong_calls_are_located(tmp_path: Path, row: object, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        read_requests(write(tmp_path, AGENTS, session(row)), "weka")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block_size": 0}, "block_size = 0"),
        ({"block_size": 16}, "block_size = 16; other sessions have 64"),
        ({"hash_id_scope": "global"}, "hash_id_scope = 'global'"),
        ({"requests": {}}, "missing list 'requests'"),
    ],
)
def test_wrong_sessions_are_located(tmp_path: Path, change: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidSpecError, match=f"line 2: {words}"):
        read_requests(write(tmp_path, AGENTS, session(**change)), "weka")


def test_times_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, AGENTS)
    path.write_text(path.read_text().replace("11.0", "NaN"))
    with pytest.raises(InvalidSpecError, match="line 1: not JSON"):
        read_requests(path, "weka")


def test_sub_agents_nest_to_a_limit(tmp_path: Path) -> None:
    row: object = call(0, 64, [1])
    for _ in range(40):
        row = container(9, 1, row)
    with pytest.raises(InvalidSpecError, match="more than 32 sub-agents"):
        read_requests(write(tmp_path, session(row)), "weka")


def test_long_sessions_are_read(tmp_path: Path) -> None:
    count = 100_000
    rows = [call(count - n, 64, [n % 3], think_time=-1.0) for n in range(count)]
    trace = read_requests(write(tmp_path, session(*rows)), "weka")
    check_invariants(trace.requests)
    assert trace.requests.pause_N.tolist() == [-1] + [0] * (count - 1)
    assert "99,999 rows that began before the previous one of its agent" in trace.warnings
    assert "99,999 requests with think_time below 0: 0 is used" in trace.warnings


def test_the_published_sample() -> None:
    path = request_trace(SAMPLE)
    trace = read_requests(path, "weka")
    requests = trace.requests
    check_invariants(requests)
    with (path.parent / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    nested = sum(int(row["subagent_requests"]) for row in rows)
    assert (len(rows), nested, requests.isl_N.size) == (84, 402, 7719)
    assert np.unique(requests.session_N).size == 84
    assert requests.isl_N.sum() == sum(int(row["input_tokens"]) for row in rows)
    assert np.count_nonzero(requests.pause_N < 0) == 84
    # all containers are followed by a call, some by one for several of them
    joins = np.diff(requests.after_first_N) > 1
    assert (np.diff(requests.after_first_N)[joins] - 1).sum() == 42
    # hashes are stored once per string, not once per prompt (12.7 million)
    assert requests.hash_H.size < 1_300_000
    published = [float(row["infinite_cache_hit_blocks"]) for row in rows]
    tokens = [int(row["input_tokens"]) for row in rows]
    assert hit_share(requests) == pytest.approx(np.average(published, weights=tokens), abs=0.01)
    assert hit_share(requests) == pytest.approx(0.960, abs=0.01)
    assert "289 of 7,719 requests without api_time" in trace.warnings[1]


def test_an_ample_cache_hits_what_an_unlimited_one_would() -> None:
    requests = read_requests(request_trace(SAMPLE), "weka").requests
    prices = flat_prices(10**10, 10**10, seqs=256, tokens=8192, per_token=10**7)
    limits = SchedulerLimits(256, 8192, 64, 1_000_000, prefix_caching=True)
    outcome = run(session_pool(requests, 8, (0.0, 0.0), 0), prices, limits, concurrency=8)
    assert (outcome.finished_N > 0).all()
    assert outcome.cached_N.sum() / requests.isl_N.sum() == pytest.approx(0.960, abs=0.01)
