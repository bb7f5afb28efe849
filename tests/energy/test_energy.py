"""Energy of operators and power of boards: values by hand, laws and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.energy import (
    StepEnergy,
    board_energy,
    capped_clock_ratio,
    energy_share,
    power_columns,
    voltage,
    with_energy,
)
from perfatlas.energy.boards import energy_data
from perfatlas.hardware import resolve_system, system_names
from perfatlas.inference.energy import TokenEnergy
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.operators import FloatArray, Gemm, GroupedGemm, Phase
from perfatlas.quantities import InvalidSpecError
from perfatlas.report.text.results import limits_of
from perfatlas.verbs.kernel import kernel_columns

LLAMA = "meta-llama/Llama-3.1-8B"


def h100(count: int = 1, clock: float | None = None) -> DeviceColumns:
    return DeviceColumns(
        devices=(resolve_system("h100_sxm").device,),
        index_C=np.zeros(count, np.int64),
        clock_ratio_C=None if clock is None else np.full(count, clock),
    )


def product(m: float) -> Gemm:
    return Gemm(
        name="product",
        phase=Phase.PREFILL,
        count=np.ones(1),
        m=np.array([m]),
        n=np.array([8192.0]),
        k=np.array([8192.0]),
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def test_energy_of_a_product_by_hand() -> None:
    one = product(64.0)
    prices = price_operators([one], h100(), family="vllm", tier="auto")
    found = with_energy([one], prices, h100())
    flop, weights = 2.0 * 64 * 8192 * 8192, 2.0 * 8192 * 8192
    activations = 2.0 * 64 * (8192 + 8192)
    chip_j = flop * 1.23e-12 + (weights + activations) * 52.1e-12
    assert found.chip_energy_j_CO[0, 0] == pytest.approx(chip_j)
    assert found.memory_energy_j_CO[0, 0] == pytest.approx(weights * 81.4e-12)


def experts(tokens: float) -> GroupedGemm:
    return GroupedGemm(
        name="experts",
        phase=Phase.PREFILL,
        count=np.ones(1),
        tokens=np.array([tokens]),
        hidden=np.array([7168.0]),
        intermediate=np.array([2048.0]),
        experts=np.array([256.0]),
        top_k=np.array([8.0]),
        ep=np.ones(1),
        moe_tp=np.ones(1),
        matrices=3,
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def test_experts_are_charged_issuing_sms_beyond_their_roofline() -> None:
    prices = price_operators([experts(64.0)], h100(), family="vllm", tier="auto")
    bound = with_energy([experts(64.0)], prices, h100())
    slower = replace(prices, time_s_CO=prices.time_s_CO + 1e-3)
    slow = with_energy([experts(64.0)], slower, h100())
    # 1 ms longer, 132 SMs that issue with 1.19 W each
    extra_j = slow.chip_energy_j_CO - bound.chip_energy_j_CO
    assert extra_j[0, 0] == pytest.approx(132 * 1.19 * 1e-3)
    roofline = replace(prices, time_s_CO=prices.bound_s_CO)
    least = with_energy([experts(64.0)], roofline, h100())
    assert (least.chip_energy_j_CO < bound.chip_energy_j_CO).all()


def test_the_energy_share_of_a_clock_is_the_squared_voltage() -> None:
    power, one = power_columns(h100()), np.ones(1)
    idle = StepEnergy(
        one, one, 0.0 * one, 100.0 * one, 10.0 * one
    )  # 110 W of dynamic power: no limit binds
    assert energy_share(idle, one, power).tolist() == [1.0]
    squared = float(voltage(np.array(0.5), np.array(0.695), np.array(0.6))) ** 2
    assert energy_share(idle, 0.5 * one, power) == pytest.approx(squared)
    busy = StepEnergy(one, one, 0.0 * one, 1000.0 * one, 10.0 * one)  # 1132 W at full voltage
    share = energy_share(busy, one, power)
    assert share == pytest.approx((700.0 - 122.2 - 10.0) / 1000.0)
    assert energy_share(busy, 0.999 * one, power) == pytest.approx(share, rel=2e-3)


def test_the_clock_under_a_limit_by_hand() -> None:
    # a compute-bound step: 1 s at the sustained clock, 400 J in the chip, none in memory
    power, one = power_columns(h100(), np.array([300.0])), np.ones(1)

    def at(ratio: FloatArray) -> StepEnergy:
        return StepEnergy(one / ratio, one / ratio, 0.0 * one, 400.0 * one, 0.0 * one)

    clock = capped_clock_ratio(at, at(one), power)
    volts = 1.0 - 0.695 * (1.0 - float(clock.ratio[0]))
    switching = volts**2 * float(clock.ratio[0])  # of clocks, also between kernels: 52.2 W
    watts = 70.0 + 52.2 * switching + 400.0 * switching
    assert 300.0 * (1.0 - 1e-3) <= watts <= 300.0
    assert np.isnan(clock.lowest_w[0])


def test_a_board_without_kernels_is_on_and_never_above_its_cap() -> None:
    power = power_columns(h100(3))
    found = power.mean_w(np.array([0.0, 100.0, 1e6]), np.ones(3))
    assert found.tolist() == pytest.approx([122.2, 222.2, 700.0])
    assert power.idle_w.tolist() == [70.0] * 3
    assert (power.idle_w < power.on_w).all()


@pytest.mark.parametrize("system", ["a100_sxm", "b200_sxm", "l4", "h100_sxm"])
def test_every_generation_has_positive_energies_inside_its_interval(system: str) -> None:
    board = board_energy(resolve_system(system).device)
    assert min(board.flop_j.values()) > 0.0
    assert board.idle_w < board.on_w < board.cap_w
    assert board.low < 1.0 < board.high


def test_every_energy_lies_in_its_interval_and_has_a_source() -> None:
    values = [
        value
        for table in ("memory", "link", "issue_share", "format")
        for value in energy_data()[table].values()
    ]
    values += [
        value
        for generation in energy_data()["generation"].values()
        for value in generation.values()
        if isinstance(value, dict)
    ]
    values += energy_data()["inputs"]["zeros"].values()
    assert len(values) > 40
    for one in values:
        assert 0.0 <= one["low"] <= one["value"] <= one["high"]
        assert one["kind"] in ("fitted", "measured", "derived", "assumed")
        assert len(one["ref"]) > 20


def test_a_lower_tdp_acts_as_a_power_limit_and_a_higher_one_changes_nothing() -> None:
    shape: dict[str, Any] = {"m": 4096, "n": 8192, "k": 8192}
    full, lower, higher = (
        perfatlas.kernel_gemm(system=system, **shape).results
        for system in ("h100_sxm", "h100_sxm{device.tdp=500W}", "h100_sxm{device.tdp=900W}")
    )
    limited = capped(500.0)
    for name in ("time_s", "power_w", "energy_j"):
        assert lower[name] == limited[name]
        assert higher[name] == full[name]
    assert full["time_s"] < lower["time_s"]
    assert lower["power_w"] == pytest.approx(500.0, rel=1e-3)


def capped(watts: float | None, **fields: float) -> dict[str, Any]:
    shape: dict[str, Any] = {"m": 4096, "n": 8192, "k": 8192, **fields}
    return dict(perfatlas.kernel_gemm(system="h100_sxm", power_cap_w=watts, **shape).results)


@pytest.mark.parametrize(("system", "engine"), [("h200_sxm{device.architecture=other}", "vllm")])
def test_no_power_is_predicted_without_energies_and_the_answer_says_why(
    system: str, engine: str
) -> None:
    found = perfatlas.estimate(model=LLAMA, system=system, engine=engine, isl=512, osl=128)
    names = ("power_w", "energy_per_output_token_j", "energy_per_request_j")
    assert [found.results[name] for name in names] == [None] * 3
    assert all(row["energy_j"] is None for row in found.breakdown)
    assert any("is not predicted: no energies" in text for text in found.warnings)


def test_energy_at_a_clock_does_not_depend_on_how_it_was_chosen() -> None:
    limited = capped(500.0)
    ratios = np.linspace(0.7, 0.95, 26)
    times = [capped(None, clock_ratio=float(ratio))["time_s"] for ratio in ratios]
    ratio = float(np.interp(-limited["time_s"], -np.array(times), ratios))
    chosen = capped(None, clock_ratio=ratio)
    assert chosen["power_w"] == pytest.approx(500.0, rel=2e-3)
    for name in ("time_s", "energy_j"):
        assert chosen[name] == pytest.approx(limited[name], rel=2e-3)
    assert chosen["energy_j"] < capped(None)["energy_j"]


def test_a_limit_above_the_power_of_a_lowered_clock_changes_no_time() -> None:
    free, limited = capped(None, clock_ratio=0.5), capped(500.0, clock_ratio=0.5)
    assert free["power_w"] < 400.0
    for name in ("time_s", "power_w", "energy_j"):
        assert limited[name] == free[name]


def test_a_limit_below_the_lowest_power_is_refused_with_that_power() -> None:
    with pytest.raises(InvalidSpecError, match=r"draws 1[34]\d\.\d W .* to 1[34]\d W or more"):
        capped(123.0)
    table: dict[str, list[Any]] = {
        "system": ["h100_sxm"] * 2,
        "m": [4096] * 2,
        "n": [8192] * 2,
        "k": [8192] * 2,
    }
    found = kernel_columns("gemm", {**table, "power_cap_w": [1.0, 500.0]})
    assert found["error_code"] == ["invalid", None]
    assert found["power_w"] == [None, pytest.approx(500.0, rel=1e-3)]


def test_a_roofline_time_bounds_power_from_above() -> None:
    results = perfatlas.kernel_gemm(system="h100_sxm", m=64, n=8192, k=8192, tier="bound").results
    limits = limits_of(results, tier="bound")
    assert (limits["power_w"], limits["energy_j"]) == ("at most", "at least")


def test_energy_of_a_token_is_at_most_the_power_limit_over_the_lowest_rate() -> None:
    one = np.ones(1)
    energy = TokenEnergy(
        4.0 * one,
        6.0 * one,
        0.0 * one,
        0.1 * one,
        0.0 * one,
        0.0 * one,
        0.0 * one,
        100 * one,
        700 * one,
        70 * one,
        0.9 * one,
        1.1 * one,
        0.5 * one,
    )
    for rate in (1.0, 50.0, 80.0):
        found = energy.columns((rate * one, 0.8 * rate * one, 1.2 * rate * one), one)
        high_j = float(found["energy_per_output_token_j_high"][0])
        assert found["energy_per_output_token_j"][0] <= high_j <= 700.0 / (0.8 * rate) + 1e-12


def test_no_end_of_the_power_of_a_device_of_the_catalog_is_below_its_idle_power() -> None:
    names = system_names()
    devices = tuple(resolve_system(name).device for name in names)
    power = power_columns(DeviceColumns(devices=devices, index_C=np.arange(len(names))))
    rate, none = np.ones(len(names)), np.zeros(len(names))
    spent_j = 0.1 * (power.cap_w - power.on_w)
    ends_w = (power.on_w, power.cap_w, power.idle_w, power.low, power.high)
    energy = TokenEnergy._make([none, spent_j, *[none] * 5, *ends_w, none])
    found = energy.columns((rate, np.nan * rate, 2.0 * rate), rate)
    known = np.isfinite(found["power_w"])
    assert known.sum() > 0.9 * len(names)
    for what, value in (("power_w", power.idle_w), ("energy_per_output_token_j", power.idle_w / 2)):
        low = found[f"{what}_low"][known]
        assert (value[known] <= low * (1.0 + 1e-12)).all()
        assert (low <= found[what][known]).all()
    # sn50 by hand: on 250 W, all idle; 250 x 0.36 would be 90 W
    assert found["power_w_low"][names.index("sn50")] == pytest.approx(250.0)


def test_the_note_on_power_names_the_generation_and_what_it_is_derived_from() -> None:
    (note,) = board_energy(resolve_system("rx_7900_xtx").device).notes
    assert "energies of rdna3 (like hopper; AMD RDNA 3: compute die in N5" in note
    (note,) = board_energy(resolve_system("h100_sxm").device).notes
    assert "energies of hopper:" in note
