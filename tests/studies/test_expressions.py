"""Expressions of studies: values by hand, laws, and everything that is no expression."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import Expression, InvalidSpecError

COLUMNS = {
    "tp": np.array([1.0, 2.0, 8.0]),
    "batch": np.array([8.0, np.nan, 64.0]),
    "kv_format": np.array(["fp8", "bf16", "fp8"], object),
    "device.memory.bandwidth": np.array([4.8e12, 6e12, 8e12]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp * 2 + 1", [3, 5, 17]),
        ("2 ** tp // 3 % 4", [0, 1, 1]),  # 2 // 3, 4 // 3, 85 % 4
        ("-tp", [-1, -2, -8]),
        ("max(tp, 4, 2) / min(tp, 4)", [4, 2, 2]),
        ("log2(tp) + sqrt(4)", [2, 3, 5]),
        ("tp if tp > 1 else 100", [100, 2, 8]),
        ("device.memory.bandwidth / 1e12", [4.8, 6, 8]),
        ("1 < tp <= 8", [False, True, True]),
        ("tp in [1, 8]", [True, False, True]),
        ("kv_format not in ['bf16', 'fp16']", [True, False, True]),
        ("kv_format == 'fp8' and not tp == 8", [True, False, False]),
        ("batch > 1", [True, False, True]),  # a missing number meets nothing
        ("not batch > 10", [True, False, False]),  # nor does its contrary
        ("batch != 1", [True, False, True]),
        ("batch not in [1, 2]", [True, False, True]),
        ("batch or tp > 8", [True, False, True]),
    ],
)
def test_values_by_hand(text: str, expected: list[float]) -> None:
    assert Expression(text).of(COLUMNS).tolist() == pytest.approx(expected)


def test_names_are_in_order_of_appearance() -> None:
    text = "max(tp, pp) * device.tdp if fabric.kind == 'ethernet' else tp"
    assert set(Expression(text).names) == {"tp", "pp", "device.tdp", "fabric.kind"}


def test_a_number_beyond_floats_is_named() -> None:
    with pytest.raises(InvalidSpecError, match=r"a number beyond 1\.8e308"):
        Expression(f"tp < {'9' * 400}").of(COLUMNS)


@pytest.mark.parametrize(
    "text", ["kv_format * 2", "kv_format < 3", "kv_format and tp", "-kv_format"]
)
def test_texts_and_numbers_do_not_mix(text: str) -> None:
    with pytest.raises(InvalidSpecError, match="mixes texts and numbers"):
        Expression(text).of(COLUMNS)
