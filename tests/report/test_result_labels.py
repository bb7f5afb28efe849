"""Every result of every verb has a label that fits a narrow terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import (
    distributions,
    label_of,
    open_terminal,
    printed_results,
)
from tests.report.support import print_answer
from tests.vocabulary.questions import ESTIMATES, OPERATORS, SIMULATIONS, answered

MAX_LABEL_LETTERS = 18  # of a short label: with a value and an interval it fits into 46 columns
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
    assert {label: len(label) for label in shown if len(label) > MAX_LABEL_LETTERS} == {}


def test_no_answer_is_cut_on_a_narrow_terminal(answer: dict[str, Any]) -> None:
    stream = io.StringIO()
    console = open_terminal(stream, width=NARROW, environ={})
    print_answer(console, answer, reproduce="perfatlas", verbose=True)
    text = stream.getvalue()
    assert "\u2026" not in text
    for one in printed_results(answer["results"], short=True):
        (line,) = [line for line in text.splitlines() if line.startswith(f"  {one.label}  ")][:1]
        assert one.value in line
        assert len(line) <= NARROW
