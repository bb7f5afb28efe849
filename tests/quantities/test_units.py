from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import format_quantity, parse_quantity, significant


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("4.8 TB/s", "bytes_per_s", 4.8e12),
        ("989.5 TFLOP/s", "flop_per_s", 989.5e12),
        ("400 Gbit/s", "bytes_per_s", 50e9),  # 400e9 bits / 8
        ("141 GiB", "bytes", 141 * 2**30),
        ("1.83GHz", "hz", 1.83e9),
        ("5 us", "s", 5e-6),
        (7e11, "bytes_per_s", 7e11),
        ("1_000", "count", 1000.0),
        ("1e9 B", "bytes", 1e9),
    ],
)
def test_reads_numbers_as_datasheets_print_them(
    text: str | float, dimension: str, value: float
) -> None:
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-12)


@given(st.floats(min_value=1e-9, max_value=9e20))
def test_formatting_keeps_three_digits(value: float) -> None:
    text = format_quantity(value, "B/s", digits=6)
    assert parse_quantity(text, "bytes_per_s") == pytest.approx(value, rel=1e-4)


@given(st.floats(1e-4, 9e14), st.integers(2, 6))
def test_significant_digits_have_no_exponent_and_round_to_the_value(
    value: float, digits: int
) -> None:
    text = significant(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.5 * 10.0 ** (1 - digits))
