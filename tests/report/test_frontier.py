from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import format_value, open_terminal
from perfatlas.verbs.estimate import print_frontier
from perfatlas.verbs.estimate.sections import RATE as Y, SPEED as X, distinct, frontier_chart


def points() -> list[dict[str, Any]]:
    # a step of 5 ms + 0.02 ms per sequence on 8 GPUs
    rows = []
    for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        tpot_s = 5e-3 + 2e-5 * batch
        rows.append(
            {"batch": batch, X: 1 / tpot_s, Y: batch / tpot_s / 8, "ttft_s": 0.2, "tpot_s": tpot_s}
        )
    return rows


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_chart_fits_and_labels_its_ends(width: int, unicode: bool) -> None:  # noqa: FBT001
    chart = frontier_chart(points(), width=width, unicode=unicode)
    assert max(map(len, chart.splitlines())) <= width
    assert "1024" in chart
    assert chart.isascii() == (not unicode)


@pytest.mark.parametrize("width", [40, 50])
def test_a_narrow_terminal_cuts_no_number(width: int) -> None:
    stream = io.StringIO()
    answer = {"scenario": {"model": "m"}, "results": {"frontier": points()}}
    print_frontier(open_terminal(stream, width=width, environ={}), answer, reproduce="r")
    assert "\u2026" not in stream.getvalue()
    assert format_value("tpot_s", 5e-3 + 2e-5 * 1024) in stream.getvalue()


def test_batches_that_tell_the_same_are_listed_once() -> None:
    rows = [{"batch": batch} for batch in (1, 2, 3, 1177, 1180, 1184)]
    assert [row["batch"] for row in distinct(rows)] == [1, 2, 3, 1184]
