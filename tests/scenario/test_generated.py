"""Generated traffic: ramps, sessions, shared prefixes, drawn lengths, windows of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.files import mapped_arrays as scratch
from perfatlas.scenario.deployments import ResolvedTraffic, refuse_unused_options, resolve_traffic
from perfatlas.scenario.fields import Scenario, Traffic
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.verbs.simulate import simulate

SECOND = TICKS_PER_SECOND


def made(concurrency: int | None = None, isl: int | None = None, **fields: Any) -> ResolvedTraffic:  # noqa: ANN401
    deployed = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
    lengths: dict[str, int] = {} if isl is None else {"isl": isl}
    if isl is None and not {"requests", "lengths_from"} & fields.keys():
        lengths = {"isl": 100, "osl": 10}
    scenario = Scenario.read({**deployed, "concurrency": concurrency, **lengths})
    traffic = Traffic.read(fields)
    refuse_unused_options(traffic, scenario)
    return resolve_traffic(traffic, scenario)


def test_turns_contain_the_conversation_and_wait() -> None:
    came = made(request_rate=4, num_requests=30, turns=3, think_time_s=5, shared_prefix=64)
    requests = came.requests
    assert requests.isl_N.shape == (30,)
    for session in range(10):
        of = requests.session_N == session
        assert requests.isl_N[of].tolist() == [164, 274, 384]
        assert (requests.pause_N[of] < 0).tolist() == [True, False, False]
    # the four blocks of 16 of the shared prefix begin every prompt
    for i in range(30):
        first = requests.hash_first_N[i]
        assert requests.hash_H[first : first + 4].tolist() == [0, 1, 2, 3]
    assert "sessions of 3 turns" in came.assumptions[0]


def test_the_rate_counts_requests_and_not_sessions() -> None:
    one, five = (made(request_rate=50, num_requests=20_000, turns=turns) for turns in (1, 5))
    seconds = [came.requests.arrival_N.max() / SECOND for came in (one, five)]
    assert seconds == [pytest.approx(400, rel=0.06)] * 2
    think = made(request_rate=50, num_requests=20_000, turns=5, think_time_s=2.0).requests.pause_N
    assert think[think >= 0].mean() / SECOND == pytest.approx(2.0, rel=0.03)


def test_a_window_of_a_file_starts_at_zero(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    rows = "".join(f"{second},{second + 1},5\n" for second in range(100))
    file.write_text("arrival_s,isl,osl\n" + rows)
    part = made(requests=str(file), requests_from_s=20, requests_to_s=30)
    assert part.requests.isl_N.tolist() == list(range(21, 31))
    assert (part.requests.arrival_N / SECOND).tolist() == list(range(10))
    assert "seconds 20 to 30 of the file" in part.assumptions[0]


def test_traces_larger_than_memory_run_as_small_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace.jsonl"
    row = '{{"timestamp": {0}, "input_length": {1}, "output_length": 9, "hash_ids": [{0}, 5]}}'
    file.write_text("".join(row.format(40 * i, 600 + i) + "\n" for i in range(300)))
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
    asked |= {"request_format": "mooncake"}
    inside = simulate(**asked, requests=str(file))
    monkeypatch.setattr(scratch, "IN_MEMORY_BYTES", 64)
    outside = simulate(**asked, requests=str(file))
    assert isinstance(outside.requests.hash_H.base, np.memmap)
    assert outside.per_request() == inside.per_request()
    assert outside.answer.results == inside.answer.results


def sessions_of(folder: Path, turns: int = 4) -> str:
    """Return a file of three sessions whose turns alternate, with a pause of a second between."""
    file = folder / "sessions.csv"
    rows = (f"{turn},{100 * turn + 100},5,{name},1" for turn in range(turns) for name in "abc")
    file.write_text("arrival_s,isl,osl,session,pause_s\n" + "\n".join(rows) + "\n")
    return str(file)


def test_sessions_of_which_a_window_has_a_part_are_known(tmp_path: Path) -> None:
    file = sessions_of(tmp_path)
    assert not made(requests=file).partial_N.size
    # ten rows are all of session a, and three of four of b and c
    came = made(requests=file, num_requests=10)
    assert came.requests.session_N[~came.partial_N].tolist() == [0] * 4
    assert came.requests.session_N[came.partial_N].tolist() == [1, 2] * 3
    assert made(requests=file, requests_from_s=1).partial_N.all()


def test_sessions_that_begin_in_the_middle_are_known(tmp_path: Path) -> None:
    came = made(requests=sessions_of(tmp_path), sessions=2)
    sizes = np.bincount(came.requests.session_N)
    assert sizes[2] == 4 > sizes[:2].max()
    assert came.partial_N.tolist() == (came.requests.session_N < 2).tolist()
    whole = made(requests=sessions_of(tmp_path), sessions=2, session_start="beginning")
    assert not whole.partial_N.any()
    cut = made(requests=sessions_of(tmp_path), sessions=2, num_requests=10)
    # requests are counted after those that are left out, session by session
    rest = min(10 - int(sizes[:2].sum()), 4)
    assert np.bincount(cut.requests.session_N).tolist() == [*sizes[:2], rest]
    assert cut.partial_N.all() == (rest < 4)
    few = made(requests=sessions_of(tmp_path), sessions=2, num_requests=1)
    assert few.requests.isl_N.size == 1
    assert few.warnings == ("1 session to simulate, fewer than sessions = 2; raise num_requests",)


def test_each_seed_draws_where_sessions_begin(tmp_path: Path) -> None:
    file = sessions_of(tmp_path, turns=50)
    sizes = {
        tuple(np.bincount(made(requests=file, sessions=2, seed=seed).requests.session_N).tolist())
        for seed in range(4)
    }
    assert len(sizes) == 4


def test_times_are_those_of_whole_sessions(tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "h200_sxm",
        "tier": "bound",
        "requests": sessions_of(tmp_path),
        "sessions": 2,
    }
    middle = simulate(**asked).answer
    assert middle.results["sessions_completed"] == 1
    time_s = middle.results["session_time_s"]["mean"]
    assert time_s > 3.0  # three pauses of a second
    every = simulate(**asked, session_start="beginning").answer.results
    assert every["sessions_completed"] == 3
    none = simulate(**asked | {"sessions": 3}).answer
    assert not any("session" in name for name in none.results)
    assert any("no session is simulated from its first" in text for text in none.warnings)
    seeds = simulate(**asked, num_seeds=3).answer.results
    assert seeds["session_time_s_seed_half_width"]["mean"] >= 0.0
    assert seeds["cache_hit"]["gpu"] == pytest.approx(seeds["prefix_hit_rate"])
