from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import (
    format_interval,
    format_value,
    open_terminal,
    reproduce_line,
)
from perfatlas.report.text.breakdown import bound_summary
from perfatlas.report.text.latencies import print_distributions
from perfatlas.report.text.question import load_line
from tests.report.support import print_answer

REPRODUCE = "perfatlas estimate --model meta-llama/Llama-3.1-70B-Instruct --system h200_sxm"


def written(answer: dict[str, Any], *, verbose: bool = True, **terminal: Any) -> str:  # noqa: ANN401
    stream = io.StringIO()
    console = open_terminal(stream, **{"width": 80, "environ": {}, **terminal})
    print_answer(console, answer, reproduce=REPRODUCE, verbose=verbose)
    return stream.getvalue()


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [40, 50, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_the_command(
    answer: dict[str, Any],
    width: int,
    verbose: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    *lines, last = written(answer, width=width, verbose=verbose).splitlines()
    assert last == f"reproduce: {REPRODUCE}"
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [40, 44, 60, 80])
def test_no_number_is_cut_on_any_terminal(answer: dict[str, Any], width: int) -> None:
    text = written(answer, width=width)
    assert "\u2026" not in text
    for name in ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu"):
        results = answer["results"]
        assert f" {format_value(name, results[name])} " in text
        assert format_interval(name, results[f"{name}_low"], results[f"{name}_high"]) in text
    for row in answer["breakdown"]:
        if row["share"] >= 0.005:
            assert f" {format_value('time_s', row['time_s'])} " in text


def test_seconds_are_not_counted_in_thousands() -> None:
    assert format_value("makespan_s", 2827.4) == "2,827 s"
    assert format_interval("makespan_s", 998.0, 1012.0) == "998 - 1,012 s"
    assert format_interval("queue_s", 0.0, 0.0) == "0 s"


def test_a_narrow_terminal_leaves_out_whole_columns_and_names_them() -> None:
    values = {"mean": 0.0123, "p50": 0.0123, "p90": 0.0123, "p95": 0.0123, "p99": 0.0123}
    results = {"ttft_s": values, "ttft_s_low": values, "ttft_s_high": values}
    for width, left in ((80, ""), (52, "90% (mean)"), (34, "90% (mean), p95, p90")):
        stream = io.StringIO()
        print_distributions(open_terminal(stream, width=width, environ={}), results)
        text = " ".join(stream.getvalue().split())
        assert ("shows " in text) == bool(left)
        assert text.endswith(left)
        assert "p99" in text.split("a wider")[0]


def test_the_answer_comes_first_then_why_then_how_sure(answer: dict[str, Any]) -> None:
    text = written(answer)
    parts = [
        "TTFT",
        "TPOT",
        "memory per GPU",
        "prefill step",
        "decode step",
        "confidence",
        "warning",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "9.94 ms   9.24 - 11.0 ms\n" in text
    assert "21.0 GB of 141 GB: fits; KV cache capacity 2,650,000 tokens" in text


def test_colour_is_for_terminals_and_not_with_no_color(answer: dict[str, Any]) -> None:
    assert "\x1b[" not in written(answer)
    assert "\x1b[" in written(answer, environ={"FORCE_COLOR": "1", "TERM": "xterm-256color"})
    for veto in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in written(answer, environ={"FORCE_COLOR": "1", **veto})


def test_an_ascii_stream_gets_ascii(answer: dict[str, Any]) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    console = open_terminal(stream, width=80, environ={})
    print_answer(console, answer, reproduce=REPRODUCE, verbose=True)
    stream.flush()
    assert b"W weights 8.82 GB" in raw.getvalue()
    assert b" us " in raw.getvalue()
    assert " µs " in written(answer)


def test_markup_in_names_is_printed_as_it_is(answer: dict[str, Any]) -> None:
    answer["scenario"]["model"] = "[bold]evil[/bold]:smile:"
    assert "[bold]evil[/bold]:smile:" in written(answer)


def test_bounds_are_summed_by_time() -> None:
    rows = [{"bound": "memory", "time_s": 2.0}, {"bound": "host", "time_s": 1.0}]
    rows += [{"bound": "memory", "time_s": 1.0}]
    # (2 + 1) / 4 and 1 / 4
    assert bound_summary(rows) == "memory 75%, host 25%"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("ttft_s", 0.0123, "12.3 ms"),
        ("bus_bandwidth_bytes_per_s", 4.1e11, "410 GB/s"),
        ("output_tokens_per_s_per_gpu", 12345.6, "12,346"),
        ("kv_capacity_tokens", 2_650_000, "2,650,000"),
        ("fits", False, "no"),
        ("tpot_s", None, "-"),
    ],
)
def test_the_key_determines_the_format_of_its_value(key: str, value: object, text: str) -> None:
    assert format_value(key, value) == text


def test_the_reproducing_command_is_safe_to_paste() -> None:
    fields = {"system": "h200_sxm{device.tdp=500W}", "tp": 8, "clock_ratio": 1.0, "dp": None}
    line = reproduce_line("estimate", fields | {"frontier": True})
    assert line == (
        "perfatlas estimate --system 'h200_sxm{device.tdp=500W}' --tp 8 --clock-ratio 1 --frontier"
    )


@pytest.mark.parametrize(
    ("scenario", "results", "midway"),
    [
        ({"requests": "a.jsonl", "sessions": 4}, {}, True),
        ({"requests": "a.jsonl"}, {"max_sessions": 4}, True),
        ({"requests": "a.jsonl", "sessions": 4, "session_start": "beginning"}, {}, False),
        ({"sessions": 4}, {}, False),
        ({"sessions": 4, "session_start": "middle"}, {}, True),
    ],
)
def test_sessions_that_begin_midway_are_told(
    scenario: dict[str, Any], results: dict[str, Any], *, midway: bool
) -> None:
    line = load_line({"scenario": {"model": "m"} | scenario, "results": results})
    assert "4 sessions live" in line
    assert ("begin midway with cold caches" in line) == midway
