from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.hardware import Device, resolve_system
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.machines.gpu.tiers.bound import price_at_bound
from perfatlas.operators import BOUND_NAMES, FloatArray, Gemm, Phase
from perfatlas.quantities import UnsupportedError

SIZES = st.integers(1, 65536)


def column(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def on(device: Device, candidates: int = 1) -> DeviceColumns:
    return DeviceColumns(devices=(device,), index_C=np.zeros(candidates, np.int64))


def gemm(m: float, n: float, k: float, format_name: str = "bf16") -> Gemm:
    return Gemm(
        name="gemm",
        phase=Phase.DECODE,
        count=np.ones(1),
        m=column(m),
        n=column(n),
        k=column(k),
        format=format_name,
        weight_bytes_per_element=2.0 if format_name == "bf16" else 1.0,
        input_bytes_per_element=2.0 if format_name == "bf16" else 1.0,
    )


def doubled(device: Device) -> Device:
    return replace(
        device,
        peak_flop_per_s={name: 2 * peak for name, peak in device.peak_flop_per_s.items()},
        memory_bandwidth=2 * device.memory_bandwidth,
        boost_clock_hz=2 * device.boost_clock_hz,
    )


def test_weight_streaming_is_bound_by_memory_at_small_m() -> None:
    device = resolve_system("h200_sxm").device
    time = price_at_bound([gemm(1, 8192, 8192)], on(device))
    # 8192 x 8192 x 2 bytes at 4.8 TB/s; activations fit the L2
    assert time.time_s_CO[0, 0] == pytest.approx(8192 * 8192 * 2 / 4.8e12)
    assert BOUND_NAMES[time.code_CO[0, 0]] == "memory"


def test_large_product_is_bound_by_compute() -> None:
    device = resolve_system("h200_sxm").device
    time = price_at_bound([gemm(8192, 8192, 8192)], on(device))
    assert time.time_s_CO[0, 0] == pytest.approx(2 * 8192**3 / device.peak_flop_per_s["bf16"])
    assert BOUND_NAMES[time.code_CO[0, 0]] == "compute"


@given(m=SIZES, n=SIZES, k=SIZES, more=st.integers(1, 65536))
def test_the_bound_never_decreases_with_any_dimension(m: int, n: int, k: int, more: int) -> None:
    devices = on(resolve_system("b200_sxm").device)
    base = price_at_bound([gemm(m, n, k)], devices).time_s_CO[0, 0]
    for grown in (gemm(m + more, n, k), gemm(m, n + more, k), gemm(m, n, k + more)):
        assert price_at_bound([grown], devices).time_s_CO[0, 0] >= base


@given(m=SIZES, n=SIZES, k=SIZES)
def test_doubling_every_rate_halves_the_bound(m: int, n: int, k: int) -> None:
    device = resolve_system("h200_sxm").device
    slow = price_at_bound([gemm(m, n, k)], on(device)).time_s_CO[0, 0]
    fast = price_at_bound([gemm(m, n, k)], on(doubled(device))).time_s_CO[0, 0]
    assert fast == pytest.approx(slow / 2)


def test_clock_scales_compute_and_leaves_memory() -> None:
    device = resolve_system("h200_sxm").device
    half = replace(on(device), clock_ratio_C=column(0.5))
    for shape, factor in ((gemm(8192, 8192, 8192), 2.0), (gemm(1, 8192, 8192), 1.0)):
        full = price_at_bound([shape], on(device)).time_s_CO[0, 0]
        assert price_at_bound([shape], half).time_s_CO[0, 0] == pytest.approx(factor * full)


def test_a_format_without_tensor_cores_is_refused_with_alternatives() -> None:
    a100 = resolve_system("a100_sxm").device
    with pytest.raises(UnsupportedError, match=r"does not multiply in fp8.*bf16"):
        price_at_bound([gemm(64, 64, 64, "fp8_static")], on(a100))


def test_candidates_on_different_devices_are_priced_as_columns() -> None:
    names = ("a100_sxm", "h200_sxm", "b200_sxm")
    devices = tuple(resolve_system(name).device for name in names)
    columns = DeviceColumns(devices=devices, index_C=np.array([2, 0, 1, 0]))
    four = replace(
        gemm(1, 1, 1),
        count=np.ones(4),
        m=np.full(4, 4096.0),
        n=np.full(4, 4096.0),
        k=np.full(4, 4096.0),
    )
    times = price_at_bound([four], columns).time_s_CO[:, 0]
    alone = [price_at_bound([gemm(4096, 4096, 4096)], on(d)).time_s_CO[0, 0] for d in devices]
    assert times.tolist() == [alone[2], alone[0], alone[1], alone[0]]


@given(m=SIZES, n=SIZES, k=SIZES)
def test_physics_is_never_faster_than_the_bound(m: int, n: int, k: int) -> None:
    devices = on(resolve_system("h100_sxm").device)
    priced = price_operators([gemm(m, n, k)], devices, family="vllm", tier="physics")
    assert priced.match_CO[0, 0] >= 0
    assert priced.time_s_CO[0, 0] >= priced.bound_s_CO[0, 0]
    assert priced.low_s_CO[0, 0] <= priced.time_s_CO[0, 0] <= priced.high_s_CO[0, 0]


def test_equal_shapes_are_priced_once_and_scattered_back() -> None:
    devices = on(resolve_system("h200_sxm").device, candidates=100)
    sizes = np.repeat([256.0, 512.0], 50)
    operator = replace(
        gemm(1, 1, 1), count=np.ones(100), m=sizes, n=np.full(100, 4096.0), k=np.full(100, 4096.0)
    )
    priced = price_operators([operator, operator], devices, family="vllm", tier="physics")
    assert (priced.rows, priced.distinct) == (200, 2)
    assert np.unique(priced.time_s_CO).size == 2


def test_an_unmeasured_device_uses_tier_bound() -> None:
    devices = on(resolve_system("cpu").device)
    priced = price_operators([gemm(64, 4096, 4096)], devices, family="vllm", tier="auto")
    assert priced.match_CO[0, 0] == -1
    assert priced.time_s_CO[0, 0] == priced.bound_s_CO[0, 0]


def test_a_relative_lends_its_kernels_with_a_wider_interval() -> None:
    own = on(resolve_system("h200_sxm").device)
    borrowed = on(resolve_system("gh200").device)
    pair = [
        price_operators([gemm(64, 4096, 4096)], d, family="vllm", tier="auto")
        for d in (own, borrowed)
    ]
    width = [p.high_s_CO[0, 0] / p.low_s_CO[0, 0] for p in pair]
    assert not pair[1].matches[0].own
    assert pair[1].matches[0].notes
    assert width[1] > width[0]


def test_a_processor_answers_its_roofline() -> None:
    device = resolve_system("cpu").device
    peak = 64 * 128 * device.sustained_clock_hz
    assert device.peak_flop_per_s["bf16"] == pytest.approx(peak, rel=2e-3)
    prices = price_operators(
        [gemm(1, 8192, 8192), gemm(8192, 8192, 8192)], on(device), family="", tier="auto"
    )
    assert prices.time_s_CO[0] == pytest.approx(
        [8192**2 * 2 / (8 * 38.4e9), 2 * 8192**3 / device.peak_flop_per_s["bf16"]]
    )
    assert not (prices.match_CO >= 0).any()
