"""Traces of agents: Dynamo request traces, agentic Mooncake rows, OpenTelemetry spans."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests import TICKS_PER_SECOND, Requests
from perfatlas.serving.traces import TraceWindow, read_requests
from tests.serving.support import check_invariants, hashes_of

Row = dict[str, Any]


def write(folder: Path, *lines: object) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def waits(requests: Requests) -> list[list[int]]:
    return [requests.after_E[a:b].tolist() for a, b in pairwise(requests.after_first_N)]


def seconds(ticks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[float]:
    return [round(tick / TICKS_PER_SECOND, 9) if tick >= 0 else -1.0 for tick in ticks.tolist()]


def ended(
    name: str, start_ms: int, end_ms: int, *hashes: int, isl: int = 0, **context: str | None
) -> Row:
    """Return the end of a request, with blocks of 64 tokens."""
    replay = {
        "trace_block_size": 64,
        "input_length": isl or 64 * len(hashes),
        "input_sequence_hashes": [2**64 - one for one in hashes],
    }
    request = {"request_id": name, "request_received_ms": 10**12 + start_ms, "output_tokens": 7}
    return {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": 10**12 + end_ms,
        "request": {**request, "replay": replay},
    } | ({"agent_context": context} if context else {})


TREE: tuple[Row, ...] = (
    ended("a", 0, 1000, 1, 2, session_id="main"),
    # two sub-agents within the pause of the main agent, one of two requests
    ended("c", 1100, 2100, 9, session_id="two", parent_session_id="main"),
    ended("b", 1000, 2000, 8, session_id="one", parent_session_id="main"),
    {"event_type": "tool_end", "event_time_unix_ms": 10**12 + 3200, "tool": {}},
    ended("d", 2500, 3000, 8, 5, isl=100, session_id="one", parent_session_id="main"),
    ended("e", 3500, 4000, 1, 2, 3, session_id="main"),
)


def test_sub_agents_of_dynamo_fork_and_join(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, *TREE), "dynamo")
    requests = trace.requests
    check_invariants(requests)
    # in order of start: a, b, c, d, e
    assert requests.isl_N.tolist() == [128, 64, 64, 100, 192]
    assert waits(requests) == [[], [0], [0], [1], [0, 2, 3]]
    assert seconds(requests.arrival_N) == [0.0, 1.0, 1.1, 2.5, 3.5]
    assert seconds(requests.pause_N) == [-1.0, 0.0, 0.1, 0.5, 0.5]
    assert requests.session_N.tolist() == [0] * 5
    assert hashes_of(requests, 0).tolist() == hashes_of(requests, 4).tolist()[:2]
    assert trace.warnings == ()


def test_dynamo_events_may_be_wrapped_and_have_trajectories(tmp_path: Path) -> None:
    rows = [
        {
            "timestamp": 5,
            "event": row
            | {
                "agent_context": {
                    "session_id": "run",
                    "trajectory_id": row["agent_context"]["session_id"],
                    "parent_trajectory_id": row["agent_context"].get("parent_session_id"),
                }
            },
        }
        for row in TREE
        if "agent_context" in row
    ]
    first = read_requests(write(tmp_path, *TREE), "dynamo").requests
    other = read_requests(write(tmp_path, *rows), "dynamo").requests
    for name, value in first._asdict().items():
        assert np.array_equal(value, getattr(other, name)), name


def test_dynamo_requests_without_an_agent_are_independent(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, ended("a", 5, 9, 1), ended("b", 7, 8, 1)), "dynamo")
    assert trace.requests.session_N.tolist() == [-1, -1]
    assert seconds(trace.requests.arrival_N) == [0.0, 0.002]
    assert not trace.requests.after_E.size


def test_dynamo_requests_of_an_agent_run_one_after_the_other(tmp_path: Path) -> None:
    rows = [
        ended("a", 0, 1000, 1, session_id="s"),
        ended("b", 400, 900, 1, session_id="s"),
        ended("c", 0, 10, 1, session_id="t"),
    ]
    rows[0]["request"] |= {"total_time_ms": 600.0, "output_tokens": 0}
    trace = read_requests(write(tmp_path, *rows), "dynamo")
    assert waits(trace.requests) == [[], [], [1]]
    assert seconds(trace.requests.pause_N) == [-1.0, -1.0, 0.0]
    assert trace.requests.osl_N.tolist() == [7, 1, 7]
    assert trace.warnings == (
        "1 request without output tokens: 1 is used",
        "1 request began before the previous request of the agent had ended: simulated after it",
    )


def test_a_window_has_a_part_of_an_agent(tmp_path: Path) -> None:
    path = write(tmp_path, *TREE)
    assert read_requests(path, "dynamo", TraceWindow(first=5)).partial_N.all()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"event_type": 7}, "line 2: event_type = 7; expected an event of a Dynamo trace"),
        ({"event": []}, "line 2: event_type = None"),
        ({"event_type": "request_end"}, "line 2: missing object 'request'"),
        (ended("b", 5, 9, 1) | {"agent_context": "x"}, "line 2: agent_context = 'x' is not"),
        ({"event_type": "request_end", "request": {}}, "line 2: missing object 'replay'.*enable"),
        (ended("b", 5, 9, isl=64), "line 2: 0 hashes for 64 tokens; blocks of 64"),
        (ended("b", 5, 9, isl=-4), "line 2: input_length = -4"),
        (ended("b", 5, 9, 1, session_id="t", parent_session_id="t"), "line 2: its agent is its"),
        (
            ended("b", 5, 9, 1, session_id="s", parent_session_id="t"),
            "line 2: its agent has another parent in line 1",
        ),
        (
            ended("b", 5, 9, 1, session_id="t", parent_session_id="gone"),
            "line 2: its parent agent sent no requests in this file; add them",
        ),
        (
            ended("b", 5, 9, 1) | {"agent_context": {"trajectory_id": [1]}},
            "line 2: trajectory_id = a list of 1 items: expected text or a whole number",
        ),
    ],
)
def test_wrong_events_of_dynamo_are_located(tmp_path: Path, row: Row, words: str) -> None:
    first = ended("a", 0, 9, 1, session_id="s", parent_session_id="r")
    root = ended("r", 0, 9, 1, session_id="r")
    with pytest.raises(InvalidSpecError, match=words):
        read_requests(write(tmp_path, first, row, root), "dynamo")


def test_the_parent_of_a_sub_agent_may_be_outside_a_window(tmp_path: Path) -> None:
    path = write(tmp_path, *TREE[1:])
    with pytest.raises(InvalidSpecError, match=r"line [12]: its parent agent sent no requests"):
        read_requests(write(tmp_path, *TREE[1:3]), "dynamo")
    warning, *_ = read_requests(path, "dynamo", TraceWindow(first=2)).warnings
    assert warning.startswith("2 sub-agents with a parent agent that sent no requests: each simul")


def test_an_agent_of_spans_may_send_no_requests(tmp_path: Path) -> None:
    rows = [
        span("flow", "", 0, 9, operation="invoke_agent"),
        span("sub", "flow", 0, 9, operation="invoke_agent"),
        span("a", "sub", 1, 2, operation="chat", isl=100, osl=5),
    ]
    trace = read_requests(write(tmp_path, exported(*rows)), "otel")
    assert trace.warnings == (
        "1 sub-agent with a parent agent that sent no requests: simulated as a session of its own",
    )


def test_dynamo_blocks_have_one_size(tmp_path: Path) -> None:
    row = ended("b", 5, 9, 1)
    row["request"]["replay"]["trace_block_size"] = 128
    with pytest.raises(InvalidSpecError, match=r"line 2: trace_block_size = 128; previous rows"):
        read_requests(write(tmp_path, ended("a", 0, 9, 1), row), "dynamo")
    row["request"]["replay"]["trace_block_size"] = 64
    row["request"]["total_time_ms"] = -1
    with pytest.raises(InvalidSpecError, match="line 2: total_time_ms = -1"):
        read_requests(write(tmp_path, ended("a", 0, 9, 1), row), "dynamo")


def test_agents_that_are_ancestors_of_each_other_are_named(tmp_path: Path) -> None:
    rows = [
        ended("a", 0, 1, 1, session_id="x", parent_session_id="y"),
        ended("b", 2, 3, 1, session_id="y", parent_session_id="z"),
        ended("c", 4, 5, 1, session_id="z", parent_session_id="y"),
    ]
    with pytest.raises(InvalidSpecError, match=r"agents of line [23], line [23]\)"):
        read_requests(write(tmp_path, *rows), "dynamo")


def asked(timestamp: float | None, isl: int, *hashes: int, **other: object) -> Row:
    row = {"timestamp": timestamp, "input_length": isl, "output_length": 3, "hash_ids": hashes}
    return {name: value for name, value in (row | other).items() if value is not None}


def test_turns_of_mooncake_wait_for_the_previous_one(tmp_path: Path) -> None:
    rows = [
        asked(1000, 600, 1, 2, session_id="a"),
        asked(1500, 512, 7, session_id="b"),
        asked(None, 1100, 1, 2, 3, session_id="a", delay_ms=50),
        asked(4000, 600, 7, 8, session_id="b"),
    ]
    rows[3]["input_tokens"] = rows[3].pop("input_length")
    requests = read_requests(write(tmp_path, *rows), "mooncake").requests
    check_invariants(requests)
    # the turn without a time is placed at that of the previous one
    assert requests.isl_N.tolist() == [600, 1100, 512, 600]
    assert waits(requests) == [[], [0], [], [2]]
    assert seconds(requests.pause_N) == [-1.0, 0.05, -1.0, 2.5]
    assert requests.hash_block == 512


AGENTIC = (
    asked(0, 600, 1, 2, request_id="a", session_id="main", branches=["b"], prefix_reset=True),
    asked(None, 512, 9, request_id="b", session_id="sub", wait_for=["a"], tool_wait_ms=250),
    asked(9, 1100, 1, 2, 3, request_id="c", session_id="main", wait_for=["a", "b"], delay=100.5),
    asked(5, 512, 9, request_id="d"),
)


def test_agentic_mooncake_rows_wait_for_others(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, *AGENTIC), "mooncake")
    requests = trace.requests
    check_invariants(requests)
    # in order of arrival: a, b, d, c
    assert requests.isl_N.tolist() == [600, 512, 512, 1100]
    assert waits(requests) == [[], [0], [], [0, 1]]
    assert seconds(requests.pause_N) == [-1.0, 0.25, -1.0, 0.1005]
    # a sub-agent is of the session of its parent
    assert requests.session_N.tolist() == [0, 0, -1, 0]
    assert trace.warnings == (
        "2 values of session_id are 1 session: their requests wait for each other",
    )


def test_blocks_of_agentic_rows_follow_from_their_hashes(tmp_path: Path) -> None:
    rows = [asked(0, 130, 1, 2, 3, request_id="a"), asked(1, 192, 1, 2, 4, request_id="b")]
    trace = read_requests(write(tmp_path, *rows), "mooncake")
    assert trace.requests.hash_block == 64
    plain = [{k: v for k, v in row.items() if k != "hash_ids"} for row in rows]
    assert read_requests(write(tmp_path, *plain), "mooncake").requests.hash_block == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"wait_for": ["a", "x"]}, "line 3: wait_for = 'x', which is the request_id of no row"),
        ({"wait_for": ["b", "c"]}, "line 3: waits for itself; remove"),
        ({"wait_for": "b c d"}, "line 3: waits for itself; remove"),
        ({"wait_for": 7}, "line 3: wait_for = 7 is not a list"),
        ({"delay": -5}, "line 3: delay = -5; it must be from 0 to"),
        ({"tool_wait_ms": "1"}, "line 3: tool_wait_ms = '1': expected a number of milliseconds"),
        ({"delay": 1e15}, r"line 3: delay = 10{15}\.0; it must be from 0 to 5e\+09 milliseconds"),
        ({"delay": 4e9, "tool_wait_ms": 4e9}, r"line 3: is sent 8e\+09 ms after"),
        ({"request_id": "a"}, "line 3: request_id is also that of line 1"),
        ({"timestamp": "soon"}, "line 3: timestamp = 'soon'"),
        ({"dependencies": []}, "line 3: dependencies with triggers are not supported"),
        ({"wait_for": [], "timestamp": None}, "line 3: timestamp = None"),
        ({"hash_ids": [1]}, "line 3: 1 hash_ids for 1100 tokens; no block size fits"),
    ],
)
def test_wrong_agentic_rows_are_located(tmp_path: Path, change: Row, words: str) -> None:
    rows = [*AGENTIC[:2], AGENTIC[2] | change, AGENTIC[3]]
    with pytest.raises(InvalidSpecError, match=words):
        read_requests(write(tmp_path, *rows), "mooncake")


def test_cycles_of_agentic_rows_are_named(tmp_path: Path) -> None:
    rows = [AGENTIC[0] | {"wait_for": ["c"]}, *AGENTIC[1:]]
    with pytest.raises(InvalidSpecError, match="line 1: waits for itself through line 3; remove"):
        read_requests(write(tmp_path, *rows), "mooncake")


def span(name: str, parent: str, start_s: float, end_s: float, **attributes: object) -> Row:
    """Return a span of trace t; attributes have the names of gen_ai without their beginnings."""
    names = {
        "operation": "operation.name",
        "isl": "usage.input_tokens",
        "osl": "usage.output_tokens",
        "cached": "usage.cache_read.input_tokens",
        "chat": "conversation.id",
    }
    values = [
        {
            "key": f"gen_ai.{names[key]}",
            "value": {"intValue": str(value)} if type(value) is int else {"stringValue": value},
        }
        for key, value in attributes.items()
    ]
    times = {"startTimeUnixNano": start_s, "endTimeUnixNano": end_s}
    return {
        "traceId": "t",
        "spanId": name,
        "parentSpanId": parent,
        **{key: str(10**18 + round(time_s * 1e9)) for key, time_s in times.items()},
        "attributes": values,
    }


def exported(*spans: Row) -> Row:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


RUN = (
    span("run", "", 0, 20, operation="invoke_agent", isl=999, osl=99, chat="one"),
    span("a", "run", 0, 1, operation="chat", isl=200, osl=50),
    span("tool", "run", 1, 9, operation="execute_tool"),
    span("sub", "tool", 1.5, 8, operation="invoke_agent"),
    span("b", "sub", 2, 3, operation="chat", isl=100, osl=10),
    span("c", "sub", 4, 8, operation="chat", isl=130, osl=10),
    span("d", "run", 10, 12, operation="chat", isl=300, osl=5, cached=128),
    span("e", "run", 13, 14, operation="chat"),
    span("f", "", 15, 16, operation="text_completion", isl=70, osl=0),
)


def test_spans_are_sessions_of_agents(tmp_path: Path) -> None:
    trace = read_requests(write(tmp_path, exported(*RUN[:4]), exported(*RUN[4:])), "otel")
    requests = trace.requests
    check_invariants(requests)
    assert requests.isl_N.tolist() == [200, 100, 130, 300, 70]
    assert requests.osl_N.tolist() == [50, 10, 10, 5, 1]
    assert waits(requests) == [[], [0], [1], [0, 2], []]
    assert seconds(requests.pause_N) == [-1.0, 1.0, 1.0, 2.0, -1.0]
    assert requests.session_N.tolist() == [0, 0, 0, 0, 1]
    assert trace.warnings == (
        "1 model call without token usage: excluded",
        "1 request without output tokens: 1 is used",
    )


@pytest.mark.parametrize(
    ("isl", "cached", "blocks"),
    [
        # after a prompt of 200 tokens (3 full blocks) and an answer of 100
        (640, {}, 3),
        (640, {"cached": 0}, 3),  # a miss is not other text
        (250, {}, 3),  # without the answer
        (192, {}, 0),  # shorter than the prompt: a summary
        (192, {"cached": 130}, 2),
        (192, {"cached": 192}, 3),
    ],
)
def test_a_prompt_of_spans_continues_the_conversation(
    tmp_path: Path, isl: int, cached: dict[str, int], blocks: int
) -> None:
    first = span("a", "", 0, 1, operation="chat", isl=200, osl=100, chat="q")
    later = span("b", "", 2, 3, operation="chat", isl=isl, osl=9, chat="q", **cached)
    trace = read_requests(write(tmp_path, exported(first, later, later)), "otel")
    one, two = (hashes_of(trace.requests, row).tolist() for row in range(2))
    assert len(set(one[:3]) & set(two)) == blocks
    assert one[:blocks] == two[:blocks]
    assert trace.warnings == ("1 span with the traceId and spanId of an earlier one: excluded",)


def test_cached_tokens_of_other_conversations_are_told(tmp_path: Path) -> None:
    rows = [
        span(name, "", 0, 1, operation="chat", isl=200, osl=1, chat=name, cached=128)
        for name in ("a", "b")
    ]
    trace = read_requests(write(tmp_path, exported(*rows)), "otel")
    one, two = (hashes_of(trace.requests, row).tolist() for row in range(2))
    assert set(one).isdisjoint(two)
    assert trace.warnings[0].startswith("2 requests with more cached tokens than the conversation")


def test_prompts_of_spans_share_what_their_agent_sent(tmp_path: Path) -> None:
    requests = read_requests(write(tmp_path, exported(*RUN)), "otel").requests
    prompts = [hashes_of(requests, row).tolist() for row in range(5)]
    # 130 tokens are as long as 100 + 10: one full block is shared
    assert prompts[1][:1] == prompts[2][:1]
    # 128 of 250 tokens were cached, yet the text is that of the conversation: three full blocks
    assert prompts[3][:3] == prompts[0][:3]
    others = [set(prompts[0]), set(prompts[1]) | set(prompts[2]), set(prompts[4])]
    assert sum(map(len, others)) == len(set.union(*others))


def test_a_conversation_may_be_of_several_traces(tmp_path: Path) -> None:
    turns = [
        span("x", "", 5 * turn, 5 * turn + 1, operation="chat", isl=64 + 80 * turn, osl=9, chat="q")
        | {"traceId": f"t{turn}"}
        for turn in range(3)
    ]
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(exported(*turns), indent=1))
    requests = read_requests(path, "otel").requests
    assert waits(requests) == [[], [0], [1]]
    assert seconds(requests.pause_N) == [-1.0, 4.0, 4.0]
    prompts = [hashes_of(requests, row).tolist() for row in range(3)]
    assert prompts[2][:2] == prompts[1][:2]
    assert requests.hash_first_N.tolist() == [0] * 3  # prompts that continue each other
    path.write_text(json.dumps(exported(RUN[0] | {"spanId": 7}), indent=1))
    with pytest.raises(InvalidSpecError, match="span 1: traceId = 't', spanId = 7; a span needs"):
        read_requests(path, "otel")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({}, "line 2: resourceSpans = None; expected OTLP JSON"),
        ({"resourceSpans": [1]}, "line 2: resourceSpans = a list of 1 items; expected OTLP"),
        (
            {"resourceSpans": [{"scopeSpans": {}}]},
            "line 2: scopeSpans = a dict of 0 items; expected",
        ),
        (exported(RUN[1] | {"spanId": ""}), "line 2: traceId = 't', spanId = ''; a span needs"),
        (exported(span("z", "", 5, 4, isl=1, osl=1)), "line 2: a span ends before it starts"),
        (exported(RUN[1] | {"attributes": {"a": 1}}), "line 2: attributes = a dict of 1 items"),
        (
            exported(RUN[1] | {"spanId": "z", "endTimeUnixNano": "x"}),
            "line 2: endTimeUnixNano = 'x': expected",
        ),
        (exported(span("z", "", 1, 4, isl=-1, osl=1)), "line 2: gen_ai.usage.input_tokens = '-1'"),
        (exported(span("z", "z", 1, 4, isl=1, osl=1)), "line 2: its span is within itself"),
        *(
            (
                exported(span("z", "", 1, 4, isl=9, osl=1, cached=cached)),
                f"line 2: gen_ai.usage.cache_read.input_tokens = {cached}; it must be from 0 to",
            )
            for cached in (-1, 10)
        ),
    ],
)
def test_wrong_spans_are_located(tmp_path: Path, line: Row, words: str) -> None:
    with pytest.raises(InvalidSpecError, match=words):
        read_requests(write(tmp_path, exported(*RUN), line), "otel")


def test_a_file_of_other_spans_has_no_requests(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpecError, match="contains no requests"):
        read_requests(write(tmp_path, exported(RUN[0], RUN[2])), "otel")


def test_formats_agree_on_a_session(tmp_path: Path) -> None:
    first = read_requests(write(tmp_path, *TREE), "dynamo").requests
    names = "abcde"
    common = [
        {"hashes": hashes_of(first, row).tolist(), "waits": [names[i] for i in waits(first)[row]]}
        for row in range(5)
    ]
    pauses_s = seconds(first.pause_N)
    rows = [
        asked(
            first.arrival_N[row] / 10**9,
            int(first.isl_N[row]),
            *one["hashes"],
            request_id=names[row],
            wait_for=one["waits"],
            delay=max(1e3 * pauses_s[row], 0),
        )
        for row, one in enumerate(common)
    ]
    own = [
        {
            "arrival_s": seconds(first.arrival_N)[row],
            "isl": int(first.isl_N[row]),
            "osl": 7,
            "session": "s",
            "id": names[row],
            "after": one["waits"],
            "pause_s": max(pauses_s[row], 0),
            "prefix_hash_ids": one["hashes"],
        }
        for row, one in enumerate(common)
    ]
    for form, lines in (("mooncake", rows), ("perfatlas", own)):
        other = read_requests(write(tmp_path, *lines), form).requests
        assert waits(other) == waits(first), form
        assert other.session_N.tolist() == [0] * 5, form
        assert seconds(other.pause_N) == pytest.approx(pauses_s), form
        assert [hashes_of(other, row).tolist() for row in range(5)] == [
            one["hashes"] for one in common
        ], form
