"""Every result of every verb has a label that fits a narrow terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import (
    distributions,
    label_of,
    open_terminal,
    print_answer,
    printed_results,
)
from tests.vocabulary.questions import ESTIMATES, OPERATORS, SIMULATIONS, answered

MOST_LETTERS = 18  # of a short label: with a value and an interval it fits into 46 columns
NARROW = 40

LISTED = {**OPERATORS, **ESTIMATES, **SIMULATIONS}  # by the short labels of `print_answer`


@pytest.fixture(scope="module", params=LISTED)
def answer(request: pytest.FixtureRequest) -> dict[str, Any]:
    return answered(request.param).to_dict()


def test_every_result_has_a_short_label(answer: dict[str, Any]) -> None:
    results = answer["results"]
    shown = [*(one.label for one in printed_results(results, short=True))]
    shown += [label_of(name, short=True) for name in distributions(results)]
    assert shown
    assert {label: len(label) for label in shown if len(label) > MOST_LETTERS} == {}


def test_no_answer_is_cut_on_a_narrow_terminal(answer: dict[str, Any]) -> None:
    stream = io.StringIO()
    print_answer(
        open_terminal(stream, width=NARROW, environ={}), answer, reproduce="perfatlas", verbose=True
    )
    text = stream.getvalue()
    assert "\u2026" not in text
    for one in printed_results(answer["results"], short=True):
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {one.label}  ")][:1]
        assert one.value in line
        assert len(line) <= NARROW


def test_labels_are_short_where_lines_would_be_too_wide() -> None:
    results = {
        "prefill_kv_capacity_tokens": 1_220_560.5,
        "prefill_kv_capacity_tokens_low": 1_000_000.5,
        "prefill_kv_capacity_tokens_high": 2_000_000.5,
        "prefill_kv_capacity_tokens_seed_half_width": 1000.0,
        "seeds_simulated": 3,
    }
    for width, label in ((80, "prefill KV tokens"), (120, "prefill KV cache capacity [tokens]")):
        stream = io.StringIO()
        print_answer(
            open_terminal(stream, width=width, environ={}),
            {"command": "simulate", "scenario": {"model": "m"}, "results": results},
            reproduce="",
            verbose=True,
        )
        lines = stream.getvalue().splitlines()
        assert label in stream.getvalue()
        assert "over 3 seeds, 90%" in stream.getvalue()
        assert max(map(len, lines)) <= width


def test_the_energy_of_a_kernel_is_told_and_that_of_a_run_is_a_detail() -> None:
    kernel = {"time_s": 1e-5, "power_w": 600.0, "energy_j": 6e-3}
    assert "energy" in [one.label for one in printed_results(kernel, brief=True)]
    run = {"makespan_s": 10.0, "energy_j": 6e3}
    assert "energy" not in [one.label for one in printed_results(run, brief=True)]
    assert "energy" in [one.label for one in printed_results(run)]


def test_an_operator_without_flop_has_no_rates_of_them() -> None:
    copy = {"time_s": 1e-5, "flop": 0.0, "flop_per_s": 0.0, "bytes_per_s": 4e12}
    assert [one.label for one in printed_results(copy, brief=True)] == ["time", "bytes/s"]
    assert len(printed_results(copy)) == 4
