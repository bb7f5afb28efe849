"""Cards without measured kernels: the figures of their datasheets, and what prices them."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas
from perfatlas.energy import board_energy
from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import find_calibration
from perfatlas.measurements.calibrations.matching import vendor_transfer
from perfatlas.quantities import UnsupportedError

# fp16 and fp32 peaks [TFLOP/s], memory bandwidth and link per direction [GB/s], TDP [W], as printed
CARDS = {
    "t4": (65.0, 8.1, 320.0, 16.0, 70.0),
    "v100_sxm2_16gb": (125.0, 15.7, 900.0, 150.0, 300.0),
    "v100_sxm2_32gb": (125.0, 15.7, 900.0, 150.0, 300.0),
    "v100_pcie": (112.0, 14.0, 900.0, 16.0, 250.0),
    "a10": (125.0, 31.2, 600.0, 32.0, 150.0),
    "a30": (165.0, 10.3, 933.0, 32.0, 165.0),
    "a100_pcie": (312.0, 19.5, 1935.0, 32.0, 300.0),
    "rtx_3090": (71.2, 35.6, 936.0, 32.0, 350.0),
    "rtx_a6000": (154.8, 38.7, 768.0, 32.0, 300.0),
    "l40": (181.05, 90.5, 864.0, 32.0, 300.0),
    "rtx_6000_ada": (364.2, 91.1, 960.0, 32.0, 300.0),
    "rtx_pro_6000_max_q": (438.9, 109.7, 1792.0, 64.0, 300.0),
    "jetson_agx_orin": (42.6, 5.3, 204.8, 16.0, 60.0),
    "jetson_agx_thor": (258.5, 8.08, 273.0, 32.0, 130.0),
    "h100_nvl": (835.5, 60.0, 3938.0, 64.0, 400.0),
}
WITHOUT_BF16 = ("t4", "v100_sxm2_16gb", "v100_sxm2_32gb", "v100_pcie")
ASKED: dict[str, Any] = {"model": "Qwen/Qwen3-0.6B", "batch": 4, "isl": 512, "osl": 8}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_has_the_figures_of_its_datasheet(name: str) -> None:
    card = resolve_system(name).device
    found = (
        card.peak_flop_per_s["fp16"] / 1e12,
        card.peak_flop_per_s["fp32"] / 1e12,
        card.memory_bandwidth / 1e9,
        card.scale_up.bandwidth / 1e9,
        card.tdp_w,
    )
    assert found == pytest.approx(CARDS[name])
    assert ("bf16" in card.peak_flop_per_s) == (name not in WITHOUT_BF16)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_without_kernels_of_its_own_has_a_wide_interval(name: str) -> None:
    asked: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096, "format": "fp16", "system": name}
    answer = perfatlas.kernel_gemm(**asked)
    time_s, low_s, high_s = (answer.results[f"time_s{end}"] for end in ("", "_low", "_high"))
    # not faster than its peak, and as far apart as kernels of two laboratories at least
    peak = resolve_system(name).device.peak_ratio * CARDS[name][0] * 1e12
    assert 2.0 * 4096**3 / peak <= low_s * 1.02
    assert low_s < time_s < high_s
    assert high_s / low_s > 1.4


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_card_without_bf16_runs_in_fp16_and_says_so(engine: str) -> None:
    answer = perfatlas.estimate(**ASKED, system="t4", engine=engine)
    assert answer.results["tpot_s_low"] < answer.results["tpot_s"] < answer.results["tpot_s_high"]
    assert any("unset formats are fp16, not bf16" in one for one in answer.evidence.assumptions)
    given = perfatlas.estimate(**ASKED, system="t4", engine=engine, format="fp16")
    assert given.results["tpot_s"] == answer.results["tpot_s"]


@pytest.mark.parametrize("system", ["t4", "v100_pcie"])
def test_weights_of_4_bits_run_in_fp16_without_bf16(system: str) -> None:
    shape: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096, "system": system}
    packed = perfatlas.kernel_gemm(**shape, format="int4_wo").results
    # 2 x 4096^3 FLOP over the time, as a share of the fp16 peak of the datasheet
    peak = CARDS[system][0] * 1e12 if system in CARDS else 112e12
    assert packed["peak_share"] == pytest.approx(2.0 * 4096**3 / packed["time_s"] / peak, rel=0.01)
    row, half = ({**shape, "m": 1, "format": name, "tier": "bound"} for name in ("int4_wo", "fp16"))
    times = [perfatlas.kernel_gemm(**one).results["time_s"] for one in (row, half)]
    assert times[0] / times[1] == pytest.approx(4.125 / 16, rel=0.02)  # bits of a weight


def test_unset_formats_of_an_operator_are_fp16_without_bf16() -> None:
    product: dict[str, Any] = {"system": "t4", "m": 16, "n": 4096, "k": 4096}
    unset, given = (
        perfatlas.kernel_gemm(**one) for one in (product, {**product, "format": "fp16"})
    )
    assert unset.results == given.results
    assert unset.scenario["format"] == "fp16"
    layer: dict[str, Any] = {"batch": 4, "kv_len": 1024, "num_heads": 8, "head_dim": 128}
    attention = perfatlas.kernel_attention(system="t4", phase="decode", **layer)
    assert {attention.scenario[name] for name in ("format", "kv_format")} == {"fp16"}
    norm = perfatlas.kernel_op("norm", system="t4", tokens=16, width=4096)
    assert norm.results["time_s_low"] < norm.results["time_s"] < norm.results["time_s_high"]
    with pytest.raises(UnsupportedError, match="t4 does not multiply in bf16"):
        perfatlas.kernel_gemm(**product, format="bf16")


def test_a_cache_in_bf16_is_refused_where_fp16_is_run() -> None:
    with pytest.raises(UnsupportedError, match=r"kv_format = bf16 .* set kv_format = fp16 or fp8"):
        perfatlas.estimate(**ASKED, system="t4", kv_format="bf16")
    half, fp8 = (
        perfatlas.estimate(**ASKED, system="t4", kv_format=name) for name in ("fp16", "fp8")
    )
    half_tokens, fp8_tokens = (one.results["memory"]["kv_capacity_tokens"] for one in (half, fp8))
    assert fp8_tokens == pytest.approx(2 * half_tokens, rel=0.01)


def test_the_budget_of_vllm_is_that_of_an_a100_on_every_a100() -> None:
    # vllm/engine/arg_utils.py leaves out cards with a100 in their names
    scheduler = resolve_engine("vllm").scheduler
    budgets = {
        name: scheduler.limits_on(name, resolve_system(name).device.memory_bytes)
        for name in ("a100_sxm", "a100_pcie", "h100_nvl")
    }
    tokens = {name: limits.max_num_batched_tokens for name, limits in budgets.items()}
    assert tokens == {"a100_sxm": 2048, "a100_pcie": 2048, "h100_nvl": 8192}


def test_groups_in_a_mesh_of_nvlinks_use_the_links_among_them() -> None:
    # NVIDIA DGX-1 with Tesla V100 whitepaper: one NVLink of 25 GB/s joins GPUs 0 and 1, and
    # six leave each GPU
    asked: dict[str, Any] = {"system": "v100_sxm2_16gb", "op": "all_reduce", "bytes": 2**30}
    rates = []
    for gpus in (2, 4, 8):
        found = perfatlas.collective(**asked, gpus=gpus).results
        rates.append(2.0 * (gpus - 1) / gpus * 2**30 / found["time_s_low"])
        assert found["time_s_low"] < found["time_s"] < found["time_s_high"]
    links = [(1.0 + 1e-9) * count * 25e9 for count in (1, 3, 6)]
    assert all(rate <= most for rate, most in zip(rates, links, strict=True))
    assert rates[0] > 0.7 * links[0]


@pytest.mark.parametrize("name", ["rx_7900_xtx", "r9700", "arc_pro_b60", "intel_max_1550"])
def test_cards_of_other_vendors_say_whose_kernels_price_them(name: str) -> None:
    found = perfatlas.estimate(**ASKED, system=name)
    assert any("kernels of another vendor's GPUs (l40s)" in text for text in found.warnings)
    device, l40s = (resolve_system(one).device for one in (name, "l40s"))
    ours, theirs = (find_calibration(one, "gemm", "vllm", "bf16") for one in (device, l40s))
    assert ours is not None
    assert theirs is not None
    (least, most), vendor = ((ours.quantiles[q] for q in ("q05", "q95")), vendor_transfer())
    assert least <= min(theirs.quantiles["q05"], vendor["q05"])
    assert most >= max(theirs.quantiles["q95"], vendor["q95"])
    # products without pause at their peak may draw the TDP
    board = board_energy(device)
    full_w = board.on_w + board.flop_j["bf16"] * device.peak_flop_per_s["bf16"]
    assert board.high * full_w > device.tdp_w
