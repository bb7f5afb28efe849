"""Statically scheduled machines: values by hand, limits, and answers of estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.collectives import CollectiveShapes, price_collectives
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns, Tier, price_operators
from perfatlas.measurements.calibrations import find_schedule, without_devices
from perfatlas.operators import BOUND_NAMES, Gemm, Operator, Phase, Shard, Streaming
from perfatlas.quantities import InfeasibleError
from perfatlas.report.text import limits_of

LLAMA: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "engine": "ideal",
    "batch": 1,
    "isl": 256,
    "osl": 128,
}
GROQ: dict[str, Any] = {**LLAMA, "system": "groq_tsp_v1", "format": "int8_wo"}
FREE = (
    "lpu{device.memory.bandwidth=1e18 B/s, device.stream_bytes_per_clock=1e9,"
    " device.feed_bytes_per_clock=1e9, device.vector_lanes=1e9, device.fill_cycles=0,"
    " device.scale_up.bandwidth=1e18 B/s, device.scale_up.latency=0 s, fabric.latency=0 s,"
    " node.nic_bandwidth=1e17 B/s}"
)


SHARDS: tuple[Shard, Shard] = ("column", "row")


def gemm(
    m: float, n: float, k: float, shard: Shard = "replicated", format_name: str = "bf16"
) -> Gemm:
    return Gemm(
        name="gemm",
        phase=Phase.DECODE,
        count=np.ones(1),
        shard=shard,
        m=np.full(1, m),
        n=np.full(1, n),
        k=np.full(1, k),
        format=format_name,
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def on(system: str) -> DeviceColumns:
    return DeviceColumns(devices=(resolve_system(system).device,), index_C=np.zeros(1, np.int64))


def priced(operator: Operator, system: str, tier: Tier = "auto") -> tuple[float, str]:
    found = price_operators([operator], on(system), family="", tier=tier)
    return float(found.time_s_CO[0, 0]), BOUND_NAMES[found.code_CO[0, 0]]


def exchanged(op: str, size: float, ranks: float, *systems: str) -> list[float]:
    number = len(systems)
    shapes = CollectiveShapes(
        op=op, bytes=np.full(number, size), ranks=np.full(number, ranks), stride=np.ones(number)
    )
    prices = price_collectives(
        shapes,
        systems=[resolve_system(name) for name in systems],
        system_index_U=np.arange(number),
        tier="auto",
    ).prices
    return list(prices.time_s_CO[:, 0].tolist())


def test_a_product_by_hand_is_bound_by_its_weight_feed() -> None:
    # 2 x 4096 x 4096 bytes of weights at 40,960 per clock of 1 ns, after 108 of fill
    time_s, bound = priced(gemm(1, 4096, 4096), "lpu")
    assert time_s == pytest.approx((108 + 2 * 4096 * 4096 / 40960) * 1e-9, rel=1e-12)
    assert bound == "memory"


def test_many_rows_are_bound_by_arithmetic() -> None:
    # 2 x 4096^3 FLOP at 409.6 TFLOP/s: 335.5 us
    time_s, bound = priced(gemm(4096, 4096, 4096), "lpu")
    assert time_s == pytest.approx(108e-9 + 2 * 4096**3 / 409.6e12, rel=1e-12)
    assert bound == "compute"


def test_elements_pass_the_vector_units() -> None:
    # 2 x 10,240 bf16 elements read and written by 10,240 lanes: 2 clocks, after the fill
    norm = Streaming(
        name="norm",
        phase=Phase.DECODE,
        count=np.ones(1),
        stream="norm",
        tokens=np.ones(1),
        read_bytes=np.full(1, 20480.0),
        write_bytes=np.full(1, 20480.0),
        cold_read_bytes=np.zeros(1),
    )
    time_s, bound = priced(norm, "lpu")
    assert time_s == pytest.approx(110e-9, rel=1e-12)
    assert bound == "latency"


def test_a_sum_over_chips_waits_for_one_synchronisation() -> None:
    match = find_schedule(resolve_system("groq_tsp_v1").device)
    assert match is not None
    column, row = (gemm(1, 4096, 512, one, "fp16") for one in SHARDS)
    plain, summed = (priced(one, "groq_tsp_v1") for one in (column, row))
    assert summed[0] - plain[0] == pytest.approx(match.calibration.parameters["synchronisation_s"])
    assert summed[1] == "latency"
    with without_devices(["groq_tsp_v1"]):
        assert priced(row, "groq_tsp_v1")[0] == plain[0]


@given(
    m=st.integers(1, 4096).map(float),
    n=st.integers(1, 8192).map(float),
    k=st.integers(1, 8192).map(float),
)
def test_a_free_machine_takes_the_roofline(m: float, n: float, k: float) -> None:
    work = gemm(m, n, k).work()
    peak = resolve_system(FREE).device.peak_flop_per_s["bf16"]
    least_s = float(work.flop[0]) / peak
    time_s, _ = priced(gemm(m, n, k), FREE)
    assert time_s == pytest.approx(least_s, rel=1e-9)
    assert priced(gemm(m, n, k), FREE, "bound")[0] <= time_s
    assert priced(gemm(m, n, k), "lpu", "bound")[0] <= priced(gemm(m, n, k), "lpu")[0]


def test_free_links_take_no_time() -> None:
    assert exchanged("all_reduce", 16384.0, 32.0, FREE)[0] < 1e-12


def test_an_exchange_by_hand() -> None:
    # 8 chips, two phases: a hop of 240 ns, and an eighth of 16 KiB over one link of 50 GB/s
    (inside_s,) = exchanged("all_reduce", 16384.0, 8.0, "lpu")
    assert inside_s == pytest.approx(2 * (240e-9 + 2048 / 50e9), rel=1e-12)
    # 32 chips: the same, and an eighth over four nodes: 720 ns, 3/4 of 2 KiB over 200 GB/s
    (across_s,) = exchanged("all_reduce", 16384.0, 32.0, "lpu")
    assert across_s == pytest.approx(inside_s + 2 * (720e-9 + 0.75 * 2048 / 200e9), rel=1e-12)
    (sent_s,) = exchanged("send_recv", 16384.0, 2.0, "lpu")
    assert sent_s == pytest.approx(240e-9 + 16384 / 50e9, rel=1e-12)


def test_links_of_gpus_keep_their_times_beside_scheduled_ones() -> None:
    alone = [*exchanged("all_reduce", 2.0**20, 8.0, "h100_sxm")]
    mixed = exchanged("all_reduce", 2.0**20, 8.0, "lpu", "h100_sxm", "groq_tsp_v1")
    assert mixed[1:2] == alone
    assert mixed[0] == exchanged("all_reduce", 2.0**20, 8.0, "lpu")[0]
    assert mixed[2] == exchanged("all_reduce", 2.0**20, 8.0, "groq_tsp_v1")[0]


def test_an_estimate_adds_up_and_has_an_interval_and_its_calibration() -> None:
    answer = perfatlas.estimate(**GROQ, gpus=128)
    decode = [row for row in answer.breakdown if row["phase"] == "decode"]
    assert sum(row["time_s"] for row in decode) == pytest.approx(answer.results["tpot_s"])
    assert answer.results["tpot_s_low"] < answer.results["tpot_s"] < answer.results["tpot_s_high"]
    assert [row["id"] for row in answer.evidence.calibrations] == [
        "groq_tsp_v1/schedule/dataflow/any"
    ]
    assert answer.evidence.tier == "physics"


@pytest.mark.parametrize("system", ["lpu", "groq_3_lpu", "cerebras_wse_3"])
def test_only_the_roofline_of_a_machine_without_measured_steps_is_a_limit(system: str) -> None:
    """Assumed fill is an estimate: it lies above its lower end and has no upper one."""
    results, limit = (
        perfatlas.estimate(**LLAMA, system=system, gpus=64, tier=tier) for tier in ("auto", "bound")
    )
    assert (results.evidence.tier, limit.evidence.tier) == ("physics", "bound")
    assert results.results["tpot_s_high"] is None
    assert limit.results["tpot_s"] <= results.results["tpot_s_low"] < results.results["tpot_s"]
    assert limits_of(results.results, tier="physics") == {}
    assert limits_of(limit.results, tier="bound")["tpot_s"] == "at least"
    assert any("upper end is unknown" in text for text in results.warnings)


def test_weights_are_spread_evenly_over_all_chips() -> None:
    asked = GROQ | {"model": "meta-llama/Llama-3.1-70B"}
    with pytest.raises(InfeasibleError, match=r"gpus = 352.*tp = 8, pp = 44"):
        perfatlas.estimate(**asked)
    layers, vocabulary = 68.45e9, 2 * 128_256 * 8192 * 2
    for gpus in (576, 640):  # 72 stages cut layers, 80 do not
        memory = perfatlas.estimate(**asked, gpus=gpus).results["memory"]
        assert memory["weights_bytes"] == pytest.approx((layers + vocabulary) / gpus, rel=0.01)


def test_gpus_prefill_for_statically_scheduled_decode() -> None:
    """The cache of 1,024 tokens, 80 layers of 8 heads of 128, crosses the NICs of 2 GPUs."""
    fields: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "format": "fp8", "isl": 1024}
    pooled = perfatlas.estimate(
        **fields,
        mode="disaggregated",
        prefill_system="b200_sxm",
        prefill_engine="vllm",
        prefill_tp=2,
        decode_system="groq_3_lpu",
        decode_engine="ideal",
        decode_tp=64,
        decode_pp=4,
    ).results
    nic = resolve_system("b200_sxm").node.nic_bandwidth
    cache = 1024 * 80 * 2 * 8 * 128 * 2
    assert pooled["kv_transfer_s"] == pytest.approx(cache / (2 * nic), rel=0.01)
    alone = perfatlas.estimate(
        **fields, system="groq_3_lpu", engine="ideal", tp=64, pp=4, batch=1
    ).results
    assert pooled["tpot_s"] == pytest.approx(alone["tpot_s"], rel=0.01)
    assert pooled["tpot_s_high"] is None


def test_assumed_latency_of_links_makes_an_estimate_of_operators_at_their_roofline() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "sn40l"}
    plans: tuple[dict[str, Any], ...] = ({"tp": 2}, {"pp": 2})
    for plan in plans:
        found, limit = (
            perfatlas.estimate(**asked, **plan, tier=tier) for tier in ("auto", "bound")
        )
        assert found.evidence.tier == "physics"
        assert limits_of(found.results, tier="physics") == {}
        assert found.results["tpot_s_low"] == pytest.approx(limit.results["tpot_s"], rel=1e-3)
        assert found.results["tpot_s_low"] < found.results["tpot_s"]
    assert perfatlas.estimate(**asked).evidence.tier == "bound"


def test_a_kernel_with_assumed_losses_is_no_lower_limit() -> None:
    found = perfatlas.kernel_gemm(system="cerebras_wse_3", m=1, n=4096, k=4096)
    assert any("upper end is unknown" in text for text in found.warnings)
    assert not any("a lower limit" in text for text in found.warnings)
    roofline = perfatlas.kernel_gemm(system="sn40l", m=1, n=4096, k=4096)
    assert any("the time is the roofline, a lower limit" in text for text in roofline.warnings)


def test_the_fast_end_of_traffic_on_assumed_losses_is_the_roofline() -> None:
    """Losses are another share of each step, so that no ratio of one step holds for all."""
    asked: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "cerebras_wse_3",
        "isl": 1024,
        "osl": 128,
    }
    single = perfatlas.estimate(**asked).results
    found = perfatlas.simulate(**asked, request_rate=5, num_requests=200)
    assert any("upper end is unknown" in text for text in found.warnings)
    for name in ("ttft_s", "tpot_s"):
        low = found.results[f"{name}_low"]["mean"]
        assert 0.998 < low / single[f"{name}_low"] < 1.2


def test_a_limit_is_met_or_missed_where_no_upper_end_is_known() -> None:
    asked: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "cerebras_wse_3",
        "max_gpus": 2,
    }
    found = perfatlas.search(**asked, slo_ttft_s=0.1, slo_tpot_s=0.001)
    assert {plan["slo_probability"] for plan in found.results["plans"]} == {1.0}
    assert set(found.columns["slo_probability"]) <= {0.0, 1.0}
    assert any("upper end is unknown" in text for text in found.warnings)
