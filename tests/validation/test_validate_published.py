"""Spread between laboratories, and widely known figures beside their predictions."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.answer import laboratory_spread
from perfatlas.engines import operator_spreads
from perfatlas.measurements.calibrations import USER_PROTOCOL, load_calibrations
from perfatlas.verbs.collective import collective
from perfatlas.verbs.kernel import kernel_gemm
from validation.laboratories import published_times
from validation.laboratories.operator_spread import class_deviation, effect_variance
from validation.laboratories.table_draws import Draw, table_draw

OUTSIDE = {  # figures outside the interval of other machines; the list may only get shorter
    "bridge-h100-pcie"
}
MATMUL = {"system": "h200_sxm", "m": 8192, "n": 8192, "k": 8192}


def draw(source: str, *logs: float, spread: float = 0.0) -> Draw:
    values = np.array(logs)
    return table_draw(source, "gemm", "release", values)._replace(
        spreads=np.full(values.size, spread)
    )


def test_every_source_counts_once_however_many_times_it_has() -> None:
    few, many = draw("few", 0.3, -0.3), draw("many", *[0.1, -0.1] * 50)
    assert class_deviation([few, many], "gemm") == pytest.approx(np.sqrt((0.09 + 0.01) / 2))


def test_the_error_of_a_prediction_is_no_spread_between_laboratories() -> None:
    assert effect_variance(draw("a", 0.5, -0.5, spread=0.4)) == pytest.approx(0.09)  # 0.25 - 0.16
    assert effect_variance(draw("a", 0.1, -0.1, spread=0.4)) == 0.0


def test_the_mean_of_all_other_classes_counts_as_one_source() -> None:
    own, other = draw("a", 0.1), draw("b", 0.4)._replace(operators="decode")
    # one source of 0.01, and one (prior_draws) of 0.16
    found = class_deviation([own, other], "gemm")
    assert found == pytest.approx(np.sqrt((0.01 + 0.16) / 2))
    assert class_deviation([own, other], "all") == pytest.approx(np.sqrt((0.01 + 0.16) / 2))


def test_half_widths_add_in_quadrature() -> None:
    results = kernel_gemm(**MATMUL).results
    width = operator_spreads()["gemm"].half_width
    slow = np.log(results["tabulated_high_s"] / results["time_s"])
    assert np.log(results["time_s_high"] / results["time_s"]) == pytest.approx(
        np.hypot(slow, width)
    )
    assert results["time_s_low"] == results["bound_time_s"]  # the roofline is the limit here


@pytest.mark.parametrize("gpus", [1, 8])
def test_the_interval_of_other_machines_contains_that_of_the_measured_one(gpus: int) -> None:
    results = collective(system="h100_sxm", op="all_reduce", bytes=2**20, gpus=gpus).results
    low_s, high_s = results["tabulated_low_s"], results["tabulated_high_s"]
    assert results["time_s_low"] <= low_s <= results["time_s"]
    if gpus > 1:
        assert results["time_s"] <= high_s <= results["time_s_high"]


def test_a_bound_has_no_spread() -> None:
    results = kernel_gemm(**MATMUL, tier="bound").results
    assert results["time_s_low"] == results["time_s"] == results["tabulated_low_s"]
    assert results["time_s_high"] is None
    assert results["tabulated_high_s"] is None


def test_the_users_own_machine_is_no_other_laboratory() -> None:
    from dataclasses import replace

    shipped = load_calibrations("h200_sxm")["h200_sxm/gemm/vllm/bf16"]
    assert laboratory_spread(shipped) == operator_spreads()["gemm"]
    assert laboratory_spread(replace(shipped, operator="streaming")) == operator_spreads()["all"]
    assert laboratory_spread(replace(shipped, protocol=f"{USER_PROTOCOL}; mine")) is None


def test_known_figures_outside_the_interval_are_listed() -> None:
    named = [one for one in published_times() if one.named]
    found = {one.id for one in named if not one.machine_s[0] <= one.published_s <= one.machine_s[1]}
    assert found == OUTSIDE
    assert len(named) == 39
