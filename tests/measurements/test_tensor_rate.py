"""Kernel parameters of a donor on tensor cores of another rate."""

from __future__ import annotations

import pytest

import perfatlas
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import find_shipped_calibration

H200, H20 = "h200_sxm", "h20"  # 4,096 and 1,024 FLOP per clock and SM


def parameters(system: str, operator: str = "gemm") -> dict[str, float]:
    cell = find_shipped_calibration(resolve_system(system).device, operator, "sglang", "bf16")
    assert cell is not None
    return dict(cell.calibration.parameters)


def test_cycles_beside_tensor_cores_stay() -> None:
    donor, target = parameters(H200), parameters(H20)
    # cycles per FLOP: 1/(e R) = 1/R + c; with R' = R/4, 1/e' = 1 + (1/e - 1)/4
    by_hand = 1.0 / (1.0 + 0.25 * (1.0 / donor["efficiency_compute"] - 1.0))
    assert target["efficiency_compute"] == pytest.approx(by_hand)
    assert donor["efficiency_compute"] < by_hand < 1.0
    assert target["feed_bytes_per_flop"] == pytest.approx(4.0 * donor["feed_bytes_per_flop"])


def test_other_parameters_and_equal_tensor_cores_stay() -> None:
    kept = parameters(H200).keys() - {"efficiency_compute", "feed_bytes_per_flop"}
    assert {name: parameters(H20)[name] for name in kept} == {
        name: parameters(H200)[name] for name in kept
    }
    lender = resolve_system("h800_sxm").device.calibration_relative
    assert parameters("h800_sxm") == parameters(lender)


def test_another_architecture_keeps_the_parameters_of_its_donor() -> None:
    changed = resolve_system(f"{H20}{{device.architecture=blackwell}}").device
    cell = find_shipped_calibration(changed, "gemm", "sglang", "bf16")
    assert cell is not None
    assert dict(cell.calibration.parameters) == parameters(H200)


def test_small_products_of_a_slower_tensor_core_are_bound_by_memory() -> None:
    found = perfatlas.kernel_gemm(system=H20, m=1, n=17408, k=5120, format="fp8_block").results
    assert found["time_s"] < 2.0 * found["bound_time_s"]  # 3.4 times before
