"""Values of tensors, and devices that borrow kernels at their own clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.energy.boards import energy_data
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import without_devices

SIZE: dict[str, Any] = {"m": 8192, "n": 8192, "k": 8192}
LLAMA = "meta-llama/Llama-3.1-8B"


def product(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a verb
    return dict(perfatlas.kernel_gemm(**{"system": "h200_sxm", **SIZE, **fields}).results)


def test_a_product_of_zeros_runs_at_the_clock_that_no_power_limits() -> None:
    random, zeros = product(), product(input_distribution="zeros")
    needed = random["peak_share"] * 1.83 / 1.98  # clock below which tensor cores are too slow
    highest = energy_data()["generation"]["hopper"]["highest_clock"]["value"]
    assert zeros["bound_time_s"] == random["bound_time_s"]  # the datasheet peak is the roofline
    assert zeros["flop_per_s"] / random["flop_per_s"] == pytest.approx(highest / needed, rel=0.01)
    assert zeros["power_w"] < random["power_w"] == pytest.approx(700.0, rel=1e-3)


@pytest.mark.parametrize("cap_w", [350.0, 500.0, 700.0])
def test_zeros_are_never_slower_and_a_limit_is_kept(cap_w: float) -> None:
    random = product(power_cap_w=cap_w)
    zeros = product(power_cap_w=cap_w, input_distribution="zeros")
    assert zeros["time_s"] < random["time_s"]
    assert max(zeros["power_w"], random["power_w"]) <= cap_w
    assert zeros["energy_j"] < random["energy_j"]


def test_zeros_change_no_time_where_power_does_not_limit_the_clock() -> None:
    asked: dict[str, Any] = {
        "model": LLAMA,
        "system": "h100_sxm",
        "isl": 128,
        "osl": 256,
        "batch": 1,
    }
    random, zeros = (
        perfatlas.estimate(**asked, input_distribution=values) for values in ("random", "zeros")
    )
    assert zeros.results["tpot_s"] == random.results["tpot_s"]
    assert zeros.results["power_w"] < random.results["power_w"]
    small = perfatlas.kernel_gemm(
        system="h100_sxm", m=8, n=8192, k=8192, input_distribution="zeros"
    )
    assert any("unchanged" in one for one in small.evidence.assumptions)
    unknown = perfatlas.kernel_gemm(system="cpu", **SIZE, input_distribution="zeros")
    told = "input_distribution = zeros changes no time: no clock is predicted"
    assert any(told in one for one in unknown.evidence.assumptions)


def test_generations_of_equal_energies_compare_clocks() -> None:
    # energies of Ada and of Blackwell's graphics dies are those of Hopper; Blackwell's are others
    names = ("l40s", "rtx_pro_6000_server", "b200_sxm")
    device, card, server = (resolve_system(name).device for name in names)
    with without_devices(["l40s"]):
        board = board_energy(device)
    assert board.lender == card.name
    assert board.calibrated_w == card.calibrated_tdp_w
    assert board.compute_size == device.peak_flop_per_s["bf16"] / card.peak_flop_per_s["bf16"]
    with without_devices({*MEASURED_DEVICES} - {server.name}):
        assert board_energy(device).lender == ""


@pytest.mark.parametrize(("system", "lender"), [("h100_pcie", "h100_sxm"), ("l4", "l40s")])
def test_a_borrowing_device_keeps_its_own_power_limit(system: str, lender: str) -> None:
    device = resolve_system(system).device
    board = board_energy(device)
    assert board.lender == lender
    assert board.clock_limit_w >= device.tdp_w == board.cap_w
    tight, wide = product(system=system), product(system=f"{system}{{device.tdp=2000}}")
    assert tight["time_s"] > wide["time_s"]
    assert tight["power_w"] == pytest.approx(device.tdp_w, rel=1e-3)


def test_measured_devices_and_equal_limits_keep_their_clock() -> None:
    for system in ("h100_sxm", "b200_sxm", "gb300", "l40s"):
        board = board_energy(resolve_system(system).device)
        assert (board.lender, board.clock_limit_w) == ("", board.calibrated_w)
    grace = board_energy(resolve_system("gh200").device)
    assert (grace.lender, grace.clock_limit_w) == ("h200_sxm", grace.calibrated_w)


def test_a_limit_just_below_the_tdp_changes_little() -> None:
    times = np.array([product(power_cap_w=watts)["time_s"] for watts in (700.0, 699.0, 690.0)])
    assert (np.diff(times) >= 0.0).all()
    assert times[2] / times[0] < 1.03


@pytest.mark.parametrize(
    "system", ["a100_sxm", "l40s", "h200_sxm", "b200_sxm", "gb200", "b300_sxm"]
)
def test_zeros_stay_below_the_peak_of_the_datasheet(system: str) -> None:
    random, zeros = product(system=system), product(system=system, input_distribution="zeros")
    assert random["peak_share"] <= zeros["peak_share"] < 0.95
