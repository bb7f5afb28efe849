from __future__ import annotations

import io
import math

import pytest

from perfatlas.report.text import format_value, open_terminal, print_rows, print_sourced
from perfatlas.report.text.sourced import SourcedValue

ROWS = [
    {"name": "a_rather_long_name_of_a_device", "memory_bytes": 141e9, "fp8_flop_per_s": 1.979e15},
    {"name": "short", "memory_bytes": 8.5e10, "fp8_flop_per_s": None},
]


@pytest.mark.parametrize("width", [30, 40, 60, 80])
def test_names_fold_and_numbers_are_whole_or_left_out(width: int) -> None:
    stream = io.StringIO()
    print_rows(open_terminal(stream, width=width, environ={}), ROWS)
    text = stream.getvalue()
    assert "short" in text
    assert "\u2026" not in text
    assert "141 GB" in text
    assert ("1.98 PFLOP/s" in text) == ("shows fp8" not in text)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("bias", math.log(0.01), "-99.0%"),  # a hundredth of what was measured
        ("tpot_bias", math.log(1.5), "50.0%"),
        ("median_bias", 800.0, "> 9,999%"),
        ("mean_error", -0.16, "-16.0%"),
        ("mape_before", 17614058898.5, "> 9,999%"),
        ("mape", 99.99, "9999.0%"),
    ],
)
def test_per_cents_are_of_the_measurement_and_end_somewhere(
    key: str, value: float, text: str
) -> None:
    assert format_value(key, value) == text


def test_a_source_is_written_once() -> None:
    stream = io.StringIO()
    values = [
        SourcedValue("device.tdp", "700 W", "datasheet", ("the datasheet",)),
        SourcedValue("device.sm_count", "132", "datasheet", ("the datasheet",), "as sold"),
        SourcedValue("device.l2", "60 MiB", "measured", ("a log",)),
    ]
    print_sourced(open_terminal(stream, width=80, environ={}), values)
    text = stream.getvalue()
    assert text.count("the datasheet") == text.count("a log") == 1
    assert [line.split()[-1] for line in text.splitlines()[1:4]] == ["[1]", "[1]", "[2]"]
    assert "device.sm_count  as sold" in text
