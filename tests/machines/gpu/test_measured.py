from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, gather_operators, price_operators
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.machines.gpu.shapes import coordinates, physics_model
from perfatlas.machines.gpu.tiers import measured as tier
from perfatlas.measurements.residuals import Correction
from perfatlas.measurements.residuals.residuals import interpolate
from perfatlas.measurements.tables import has_silicon, table_rows
from perfatlas.operators import FloatArray, Gemm, Phase
from perfatlas.pricing import PricedOperators
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_gemm

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)
GRID_UD = np.array(
    [
        [m, n, k, 2.0, 2.0, 2.0, 0.0, 6.0, 1.0, 1.0, 0.0, 0.0, 0.0]
        for m in (1.0, 16.0, 256.0, 4096.0)
        for n in (1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
        for k in (1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
    ]
)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    tier._residuals.cache_clear()
    return tmp_path


def products(
    m: FloatArray, n: float, k: float, format_name: str = "bf16", quantized: float = 0.0
) -> Gemm:
    layout = get_format(format_name)
    ones = np.ones_like(m)
    return Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=ones,
        m=m,
        n=n * ones,
        k=k * ones,
        format=format_name,
        weight_bytes_per_element=layout.weight_bytes,
        input_bytes_per_element=layout.activation_bytes,
        quantizes_input=quantized,
    )


def priced(operator: Gemm, name: str = "measured", version: str = "") -> PricedOperators:
    count = operator.m.size
    devices = DeviceColumns(
        devices=(resolve_system("h200_sxm").device,), index_C=np.zeros(count, np.int64)
    )
    if name == "physics":
        return price_operators([operator], devices, family="vllm", tier="physics")
    return gather_operators(
        [operator], devices, family="vllm", tier="measured", silicon_version=version
    ).full()


def test_a_coordinate_is_a_weighted_logarithm() -> None:
    # m 2 x log2(64) = 12, n log2(4096) = 12, k 0.5 x log2(1024) = 5
    shape = np.array([[64.0, 4096.0, 1024.0, 2.0, 2.0, 2.0, 0.0, 6.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    assert coordinates("gemm", shape).tolist() == [[12.0, 12.0, 5.0]]


def between(place_K: FloatArray) -> FloatArray:
    return np.abs(place_K[:, None] - place_K[None, :])[None]


def test_neighbours_on_one_side_share_their_weight() -> None:
    # on a line at -1, 2 and 2: a quarter and three quarters of the way would be the line between
    # them, so the kriged mean is 2/3 x .1 + 1/3 x (.2 + .6) / 2 = .2; the weights of the median are
    # 1, 1/2, 1/2: .1
    expected = interpolate(
        np.array([[1.0, 2.0, 2.0]]),
        np.array([[0.1, 0.2, 0.6]]),
        between(np.array([-1.0, 2.0, 2.0])),
    )
    assert expected[0] == pytest.approx((0.2 + 0.1) / 2.0, abs=1e-4)


@given(
    residuals=st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=16),
    places=st.lists(st.floats(-9.0, 9.0), min_size=16, max_size=16),
)
def test_no_correction_leaves_the_range_of_its_neighbours(
    residuals: list[float], places: list[float]
) -> None:
    place = np.array(sorted(places[: len(residuals)], key=abs))
    expected = interpolate(np.abs(place)[None], np.array([residuals]), between(place))[0]
    assert min(residuals) - 1e-9 <= expected <= max(residuals) + 1e-9


def test_a_smooth_residual_is_trusted_and_noise_is_not() -> None:
    smooth = 0.1 * np.log2(GRID_UD[:, 1]) - 0.05 * np.log2(GRID_UD[:, 2])
    believed = tier.residuals_by_distance("gemm", GRID_UD, smooth)
    assert np.all(believed.trust_B[:-1] >= 0.75)
    # 100 rows of noise can look smooth by chance: the claim is about the mean of several draws
    draws = [np.random.default_rng(seed).normal(0.0, 0.3, len(GRID_UD)) for seed in range(12)]
    doubted = [tier.residuals_by_distance("gemm", GRID_UD, noise) for noise in draws]
    assert np.mean([one.trust_B[1:-1] for one in doubted]) <= 0.4
    assert np.mean([one.high_B[1:] - one.low_B[1:] for one in doubted]) > 0.5


def test_a_measured_shape_gets_its_residual_and_a_far_one_gets_physics() -> None:
    residual = 0.1 * np.log2(GRID_UD[:, 1])
    known = tier.residuals_by_distance("gemm", GRID_UD, residual)
    far = GRID_UD[:1].copy()
    far[0, :3] = 1e9
    both = tier.correct(known, "gemm", np.concatenate([GRID_UD[7:8], far]))
    assert both.factor_U[0] == pytest.approx(math.exp(residual[7]))
    assert both.measured_U.tolist() == [True, False]
    assert both.factor_U[1] == 1.0
    assert both.low_U[1] == pytest.approx(np.quantile(residual, 0.05))


def test_comparing_all_rows_and_searching_a_tree_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tier.residuals_by_distance(
        "gemm", GRID_UD, np.random.default_rng(3).normal(0.0, 0.2, len(GRID_UD))
    )
    query = coordinates("gemm", GRID_UD * np.array([1.3, 1.1, 0.9, *np.ones(10)]))
    compared, _ = known.nearest(query)
    monkeypatch.setattr("perfatlas.measurements.residuals.residuals.FEW_PAIRS", 0)
    searched, _ = known.nearest(query)
    assert searched == pytest.approx(compared)


def test_a_product_alone_can_be_any_part_of_the_corrected_sum() -> None:
    # physics: product 2, sum 2 + 2 = 4, measured 12: factor 3. The product's share is 6; at least 2
    # (all that is missed is the quantization's), at most 12 - 2 = 10 (all is the product's).
    ones = np.ones(2)
    sums = Correction(3.0 * ones, -0.1 * ones, 0.1 * ones, np.ones(2, np.bool_))
    found = tier.product_alone(sums, np.array([True, False]), 2.0 * ones)
    assert found.factor_U.tolist() == [3.0, 3.0]
    assert (6.0 * np.exp(found.low_U)).tolist() == pytest.approx([2.0, 6.0 * math.exp(-0.1)])
    assert (6.0 * np.exp(found.high_U)).tolist() == pytest.approx([10.0, 6.0 * math.exp(0.1)])


@given(factor=st.floats(0.05, 20.0), quantization=st.floats(0.0, 10.0), share=st.floats(0.0, 1.0))
def test_the_interval_covers_every_split_of_the_residual(
    factor: float, quantization: float, share: float
) -> None:
    missed = (1.0 + quantization) * (factor - 1.0)
    one = np.ones(1)
    sums = Correction(factor * one, -0.0 * one, 0.0 * one, np.ones(1, np.bool_))
    found = tier.product_alone(sums, np.ones(1, np.bool_), one + quantization)
    low, high = factor * np.exp(found.low_U[0]), factor * np.exp(found.high_U[0])
    assert low * (1.0 - 1e-9) <= max(1.0 + share * missed, 2.0**-10 * factor)
    assert max(1.0 + share * missed, 0.0) <= high * (1.0 + 1e-9)


@needs_silicon
@pytest.mark.parametrize(
    ("device", "family", "format_name"),
    [
        ("h200_sxm", "vllm", "fp8_dynamic"),
        ("h200_sxm", "sglang", "fp8_block"),
        ("b200_sxm", "trtllm", "nvfp4"),
        ("h200_sxm", "vllm", "bf16"),
    ],
)
def test_a_shape_with_the_measured_protocol_takes_the_measured_time(
    device: str, family: str, format_name: str
) -> None:
    rows = table_rows(device, "gemm", family, format_name)
    some = np.random.default_rng(5).choice(rows.measured_s.size, 400, replace=False)
    layout = get_format(format_name)
    operator = Gemm(
        name="gemm",
        phase=Phase.PREFILL,
        count=np.ones(400),
        m=rows.columns["m"][some],
        n=rows.columns["n"][some],
        k=rows.columns["k"][some],
        format=format_name,
        weight_bytes_per_element=layout.weight_bytes,
        input_bytes_per_element=layout.activation_bytes,
        quantizes_input=rows.columns["quantize"][some],
    )
    devices = DeviceColumns(
        devices=(resolve_system(device).device,), index_C=np.zeros(400, np.int64)
    )
    answer = price_operators([operator], devices, family=family, tier="measured")
    # physics moves a row from its loop to cold caches
    match = answer.matches[0].calibration
    names = physics_model("gemm").shape_names
    hot_UD = rows.shape_table(names)[some]
    cold_UD = hot_UD.copy()
    cold_UD[:, names.index("copies")] = 0.0
    parameters = [match.parameters[n] for n in physics_model("gemm").parameter_names]
    silicon = silicon_row(resolve_system(device).device, format_name)
    hot_s, cold_s = (tier.physics_of("gemm", one, silicon, parameters) for one in (hot_UD, cold_UD))
    expected_s = np.maximum(rows.measured_s[some] * cold_s / hot_s, answer.bound_s_CO[:, 0])
    ratio = answer.time_s_CO[:, 0] / expected_s
    assert answer.measured_CO.all()
    assert np.mean(np.abs(ratio - 1.0) < 1e-3) >= 0.97  # the rest are doubted rows
    inside = (answer.low_s_CO[:, 0] <= 1.001 * expected_s) & (
        expected_s <= 1.001 * answer.high_s_CO[:, 0]
    )
    assert inside.all()


@needs_silicon
@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("quantization", ["excluded", "included"])
def test_beyond_the_rows_a_time_grows_and_spans_physics(quantization: str) -> None:
    # the table rises linearly to 240 us at m = 32768, n = k = 64; physics knows a tenth of it
    asked = {"system": "h200_sxm", "n": 64, "k": 64, "kernel_family": "vllm"}
    asked |= {"format": "fp8_dynamic", "quantization": quantization}
    sizes = (32768, 33000, 36000, 45000, 50000, 60000, 65536, 131072, 2**20, 2**29)
    found = [kernel_gemm(**asked, m=m, tier="measured").results for m in sizes]
    times = [one["time_s"] for one in found]
    assert times == sorted(times)
    assert times[1] < 1.05 * times[0]
    beyond = kernel_gemm(**asked, m=65536, tier="physics").results
    assert found[6]["time_s_low"] <= beyond["time_s"] < found[6]["time_s"]
    assert found[6]["time_s"] <= found[6]["time_s_high"]
    ends = [(one["tabulated_low_s"], one["tabulated_high_s"]) for one in found]
    widths = [math.log(high_s / low_s) for low_s, high_s in ends]
    if quantization == "included":  # the product alone may be as fast as physics everywhere
        assert widths[:7] == sorted(widths[:7])
        assert widths[0] < 0.2


@needs_silicon
def test_on_measured_rows_the_answer_is_the_measured_time(own_home: Path) -> None:
    # weights far beyond the cache: six copies of them are as cold as a step
    rows = table_rows("h200_sxm", "gemm", "vllm", "bf16")
    big = (rows.columns["n"] == 16384) & (rows.columns["k"] == 16384)
    answer = priced(products(rows.columns["m"][big], 16384.0, 16384.0))
    assert np.all(answer.measured_CO)
    assert answer.time_s_CO[:, 0] == pytest.approx(rows.measured_s[big], rel=1e-3)
    assert list((own_home / "cache" / "residuals").glob("*.npz"))


@needs_silicon
def test_a_damaged_cache_is_recomputed(own_home: Path) -> None:
    operator = products(np.array([48.0]), 5000.0, 5000.0)
    first = priced(operator).time_s_CO
    (path,) = (own_home / "cache" / "residuals").glob("*.npz")
    path.write_bytes(b"PK\x03\x04 not a table")
    tier._residuals.cache_clear()
    assert priced(operator).time_s_CO == pytest.approx(first)
    assert path.stat().st_size > 1000


@needs_silicon
@pytest.mark.usefixtures("own_home")
def test_nothing_is_faster_than_the_bound_and_intervals_hold_the_time() -> None:
    m = np.unique(np.floor(np.exp(np.random.default_rng(3).uniform(0.0, 10.0, 400))))
    for n, k in ((64.0, 64.0), (8192.0, 8192.0), (65536.0, 65536.0)):
        answer = priced(products(m, n, k, "fp8_dynamic", 1.0))
        assert np.all(answer.time_s_CO >= answer.bound_s_CO)
        assert np.all(answer.low_s_CO <= answer.time_s_CO)
        assert np.all(answer.high_s_CO >= answer.time_s_CO)


@needs_silicon
@pytest.mark.usefixtures("own_home")
def test_beyond_the_rows_physics_is_used_with_its_interval() -> None:
    operator = products(np.array([1e6]), 262144.0, 262144.0)
    far, physics = priced(operator), priced(operator, "physics")
    assert not far.measured_CO.any()
    assert far.time_s_CO == pytest.approx(physics.time_s_CO)
    assert far.high_s_CO == pytest.approx(physics.high_s_CO)


@needs_silicon
@pytest.mark.usefixtures("own_home")
def test_a_version_without_rows_of_the_format_uses_physics() -> None:
    # vLLM 0.19.0 measured some operators of H200, not the bf16 product
    asked = {"system": "h200_sxm", "m": 64, "n": 4096, "k": 4096, "kernel_family": "vllm"}
    answer = kernel_gemm(**asked, tier="measured", silicon_version="0.19.0")
    assert answer.results["tier"] == "physics"
    assert any("no table of vllm 0.19.0" in said for said in answer.evidence.assumptions)


@needs_silicon
@pytest.mark.usefixtures("own_home")
def test_an_estimate_mixes_tiers_and_lists_those_in_physics() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm", "batch": 8}
    answer = estimate(**asked, tier="measured")
    tiers = {row["name"]: row["tier"] for row in answer.breakdown}
    assert tiers["qkv_projection"] == tiers["attention"] == "measured"
    assert tiers["input_norm"] == "physics"
    assert answer.evidence.tier == "physics+measured"
    assert any("input_norm" in said for said in answer.evidence.assumptions)
    physics = estimate(**asked, tier="physics").results["tpot_s"]
    assert answer.results["tpot_s"] == pytest.approx(physics, rel=0.25)
