"""Exact values have no interval, extreme shares are printed as limits, loads are complete."""

from __future__ import annotations

import pytest

from perfatlas.report.text import (
    format_share,
    headline,
    interval_text,
    share_text,
    subheadline,
)
from perfatlas.verbs.collective import collective, collective_columns
from perfatlas.verbs.goodput.sections import goodput_headline


def test_an_exact_value_has_no_interval() -> None:
    results = {"tokens": 909.0, "tokens_low": 909.0, "tokens_high": 909.0}
    assert interval_text(results, "tokens") == ""
    results |= {"tokens_low": 800.0}
    assert interval_text(results, "tokens") == "800 - 909"


@pytest.mark.parametrize(("share", "text"), [(1.66e-157, "< 0.000001%"), (3.18e7, "> 9,999%")])
def test_extreme_shares_are_printed_as_limits(share: float, text: str) -> None:
    assert share_text(share) == text
    assert format_share(3.18e7) == "> 9,999%"


def test_the_load_names_the_shared_prefix() -> None:
    scenario = {"model": "m", "request_rate": 2.0, "isl": 64, "osl": 8, "shared_prefix": 1024}
    assert "shared prefix of 1,024 tokens" in subheadline({"scenario": scenario})


def test_a_headline_omits_the_chosen_method() -> None:
    scenario = {"mtti_s": 7200.0, "checkpoint_write_s": 60.0, "restart_s": 300.0}
    answer = {
        "command": "goodput",
        "scenario": {**scenario, "method": "simulate"},
        "results": {},
    }
    assert "simulate" not in goodput_headline(answer)


def test_one_gpu_exchanges_no_data_and_the_answer_says_so() -> None:
    fields = {"system": "h100_sxm", "op": "all_reduce", "bytes": 2**20}
    alone = collective(**fields, gpus=1)
    assert alone.results["time_s"] == 0.0
    (warning,) = alone.warnings
    assert "one GPU exchanges no data" in warning
    table = collective_columns(
        {name: [value] * 2 for name, value in fields.items()} | {"gpus": [1, 2]}
    )
    assert table["warnings"][0] == warning
    assert not table["warnings"][1]


def test_a_headline_omits_the_unit_of_a_name() -> None:
    answer = {"command": "kernel gemm", "scenario": {"system": "h200_sxm", "power_cap_w": 500.0}}
    assert headline(answer) == "kernel gemm on h200_sxm: power cap 500 W"
