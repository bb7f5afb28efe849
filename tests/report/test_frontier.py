from __future__ import annotations

import io
from typing import Any

import pytest

from perfatlas.report.text import format_value, open_terminal
from perfatlas.verbs.estimate.blocks import RATE as Y, SPEED as X, distinct
from perfatlas.vocabulary.metrics import METRICS
from tests.report.support import print_answer


def points() -> list[dict[str, Any]]:
    # a step of 5 ms + 0.02 ms per sequence on 8 GPUs
    rows = []
    for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        tpot_s = 5e-3 + 2e-5 * batch
        rows.append(
            {"batch": batch, X: 1 / tpot_s, Y: batch / tpot_s / 8, "ttft_s": 0.2, "tpot_s": tpot_s}
        )
    return rows


ANSWER: dict[str, Any] = {
    "command": "estimate --frontier", "version": "1", "warnings": [],
    "scenario": {"model": "m", "system": "h200_sxm"},
    "results": {"frontier": points()}, "evidence": {"tier": "physics"},
}  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_chart_fits_and_labels_its_ends(width: int, encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    print_answer(open_terminal(stream, width=width, environ={}), ANSWER, reproduce="r")
    stream.flush()
    text = raw.getvalue().decode(encoding)
    chart = text.partition(METRICS[X].label)[0]
    assert max(map(len, chart.splitlines())) <= width
    assert "1024" in chart
    assert text.isascii() == (encoding == "ascii")
    assert "\u2026" not in text
    assert format_value("tpot_s", 5e-3 + 2e-5 * 1024) in text


def test_batches_that_tell_the_same_are_listed_once() -> None:
    rows = [{"batch": batch} for batch in (1, 2, 3, 1177, 1180, 1184)]
    assert [row["batch"] for row in distinct(rows)] == [1, 2, 3, 1184]
