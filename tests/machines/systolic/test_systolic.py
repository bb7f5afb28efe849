"""Systolic machines: tiles and slices by hand, published collectives, refusals, and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.collectives import CollectiveShapes, price_collectives
from perfatlas.collectives.direct_links import axes_of_group
from perfatlas.hardware import resolve_system, slice_of_pod, slice_shape
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.measurements.calibrations import find_schedule, without_devices
from perfatlas.operators import (
    BOUND_NAMES,
    NAMED_BOUNDS,
    Attention,
    Gemm,
    Operator,
    Phase,
    Streaming,
)
from perfatlas.quantities import InfeasibleError, UnsupportedError

TPUS = ("tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "tpu_v7")
OTHERS = ("gaudi2", "gaudi3", "trainium1", "trainium2", "inferentia2")


def gemm(m: float, n: float, k: float, format_name: str = "bf16") -> Gemm:
    return Gemm(
        name="gemm",
        phase=Phase.FORWARD,
        count=np.ones(1),
        m=np.full(1, m),
        n=np.full(1, n),
        k=np.full(1, k),
        format=format_name,
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
    )


def price_s(operator: Operator, system: str = "tpu_v5e") -> tuple[float, str]:
    devices = DeviceColumns(devices=(resolve_system(system).device,), index_C=np.zeros(1, np.int64))
    with without_devices((*TPUS, *OTHERS)):
        prices = price_operators([operator], devices, family="", tier="auto")
    return float(prices.time_s_CO[0, 0]), BOUND_NAMES[NAMED_BOUNDS[int(prices.code_CO[0, 0])]]


def collective_s(system: str, op: str, size: float, ranks: int, stride: int = 1) -> float:
    with without_devices(TPUS):
        priced = price_collectives(
            CollectiveShapes(
                op=op,
                bytes=np.array([size]),
                ranks=np.array([float(ranks)]),
                stride=np.array([float(stride)]),
            ),
            systems=[resolve_system(system)],
            system_index_U=np.array([0]),
            tier="auto",
        )
    return float(priced.prices.time_s_CO[0, 0])


def test_a_product_takes_the_time_of_its_padded_tiles() -> None:
    """4096 x 4096 x 4000 pads k to 4096: 2 x 4096^3 / 197 TFLOP/s."""
    time_s, bound = price_s(gemm(4096, 4096, 4000))
    assert time_s == pytest.approx(2 * 4096**3 / 197e12)
    assert bound == "compute"
    # 32 of 16-bit rows are padded to the 128 clocks in which a square of weights loads; memory:
    # 4096 x 4096 x 2 B of weights and 32 x 8192 x 2 B of activations / 819 GB/s is longer
    time_s, bound = price_s(gemm(32, 4096, 4096))
    assert time_s == pytest.approx(2 * (4096**2 + 32 * 8192) / 819e9)
    assert bound == "memory"


def test_wider_units_pad_more() -> None:
    """k = 128 fills a square of 128; n = 640 fills 2.5 of 256."""
    assert price_s(gemm(8192, 8192, 128))[0] == pytest.approx(
        max(2 * 8192 * 8192 * 128 / 197e12, (2 * 8192 * 128 + 8192 * 8192) * 2 / 819e9)
    )
    assert price_s(gemm(4096, 640, 8192), "tpu_v6e")[0] == pytest.approx(
        2 * 4096 * 768 * 8192 / 918e12
    )


@given(
    m=st.integers(1, 4096),
    n=st.integers(1, 4096),
    k=st.integers(1, 4096),
    system=st.sampled_from((*TPUS, *OTHERS)),
)
def test_more_work_is_not_faster(m: int, n: int, k: int, system: str) -> None:
    time_s = price_s(gemm(m, n, k), system)[0]
    assert price_s(gemm(m + 1, n, k), system)[0] >= time_s
    assert price_s(gemm(m, n, k + 1), system)[0] >= time_s
    assert time_s >= 2.0 * m * n * k / resolve_system(system).device.peak_flop_per_s["bf16"]


def test_a_format_without_a_peak_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"tpu_v6e.*fp8"):
        price_s(gemm(8, 8, 8, "fp8_static"), "tpu_v6e")


def test_collectives_equal_the_published_closed_forms() -> None:
    """jax-ml/scaling-book, sharding.md: Pop Quiz 2 and the equations of its sections."""
    # an axis of 4 of v5e is a line: 3 x 8.4 MB / 45 GB/s = 560 us; 3 hops of 1 us
    assert collective_s("v5e-8x4", "all_gather", 2048 * 8192 * 2, 4) == pytest.approx(
        560e-6, rel=0.005
    )
    assert collective_s("v5e-8x4", "all_gather", 256 * 256 * 2, 4) == pytest.approx(3e-6)
    # a ring: V / W, half of it over two axes; AllReduce twice, AllToAll a quarter
    assert collective_s("v5e-256", "all_gather", 1e9, 16) == pytest.approx(1e9 / 9e10)
    assert collective_s("v5e-256", "reduce_scatter", 1e9, 16, 16) == pytest.approx(1e9 / 9e10)
    assert collective_s("v5e-256", "all_gather", 1e9, 256) == pytest.approx(1e9 / 18e10)
    assert collective_s("v5e-256", "all_reduce", 1e9, 256) == pytest.approx(2e9 / 18e10)
    assert collective_s("v5p-128", "all_gather", 1e9, 64) == pytest.approx(1e9 / (3 * 18e10))
    assert collective_s("v5e-256", "all_to_all", 1e9 / 16, 16) == pytest.approx(1e9 / 9e10 / 4)
    # latency: hop x sum of X / 2
    assert collective_s("v5p-128", "all_gather", 64.0, 64) == pytest.approx(6e-6)


def test_slices_reduce_over_the_network_between_them() -> None:
    """2 slices of 64: the shard of a chip, 1e9 / 64, over its quarter of 25 GB/s, and 2 x 15 us."""
    inside_s = collective_s("v5p-128", "all_reduce", 1e9, 64)
    both_s = collective_s("v5p-128", "all_reduce", 1e9, 128)
    assert both_s - inside_s == pytest.approx(1e9 / 64 / 6.25e9 + 30e-6)


def test_groups_take_whole_axes() -> None:
    assert slice_shape(64, 3) == (4, 4, 4)
    # tensor parallelism of 4 takes one axis of 4x8x8, the group behind it the others
    assert [one.ranks for one in axes_of_group((4, 8, 8), 4, 64, 4)] == [8, 8]
    # every fourth chip of a ring: as many groups share its links
    (axis,) = axes_of_group((16,), 16, 4, 4)
    assert (axis.ranks, axis.ring, axis.stride) == (4, True, 4)
    # a mesh of 2x2x4 has no ring
    assert not any(axis.ring for axis in axes_of_group((2, 2, 4), 4, 16, 1))


@pytest.mark.parametrize(
    ("name", "device", "chips"),
    [
        ("v5p-128", "tpu_v5p", 64),
        ("V5E-16", "tpu_v5e", 16),
        ("v5litepod-16", "tpu_v5e", 16),
        ("v4-384", "tpu_v4", 192),
        ("tpu7x-4x4x8", "tpu_v7", 128),
        ("v6e-8x8", "tpu_v6e", 64),
    ],
)
def test_names_of_slices_count_cores_or_chips(name: str, device: str, chips: int) -> None:
    system = resolve_system(name)
    assert (system.device.name, system.device.scale_up.domain_size) == (device, chips)
    assert system.notes[-1].startswith(f"{name.casefold()} is {chips} chips")
    assert resolve_system(system.name) == system


@pytest.mark.parametrize(("named", "pod"), [("v5p-128", "tpu_v5p"), ("v6e-64", "tpu_v6e")])
def test_chips_of_a_pod_are_the_slice_that_its_name_states(named: str, pod: str) -> None:
    """64 chips of v5p are 4x4x4, rings of 4: an all-reduce takes twice 1e9 / (3 x 180e9)."""
    slice_s, pod_s = (
        perfatlas.collective(op="all_reduce", bytes=1e9, system=one, gpus=64).results["time_s"]
        for one in (named, pod)
    )
    assert slice_s == pod_s
    if pod == "tpu_v5p":
        assert pod_s == pytest.approx(2e9 / (3 * 18e10))
    model: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "gpus": 64, "tp": 4}
    model |= {"engine": "vllm_tpu"}
    served = [perfatlas.estimate(**model, system=one).results for one in (named, pod)]
    assert served[0] == served[1]
    job = model | {"global_batch": 256, "engine": "maxtext", "recompute": "full"}
    trained = [perfatlas.train(**job, system=one).results for one in (named, pod)]
    assert trained[0] == trained[1]
    # a table has candidates of both sizes
    # rows of a table are slices of their own
    table = {name: [own] * 2 for name, own in model.items()}
    rows = perfatlas.estimate_table(table | {"system": [pod, named], "gpus": [64, 64]}).columns
    assert list(rows["tpot_s"]) == [served[0]["tpot_s"]] * 2


def test_a_slice_that_is_named_keeps_its_shape_for_fewer_chips() -> None:
    system = resolve_system("v5p-128")
    assert slice_of_pod(system, 16) is system
    pod = resolve_system("tpu_v5p")
    assert slice_of_pod(pod, 20000) is pod
    changed = resolve_system("tpu_v5p{device.scale_up.domain_size=256}")
    assert slice_of_pod(changed, 64) is changed


def test_a_step_has_the_speed_of_the_calibration_and_the_errors_of_models_left_out() -> None:
    found = find_schedule(resolve_system("v5p-128").device)
    assert found is not None
    fields: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "v5p-128",
        "engine": "maxtext",
    }
    step = perfatlas.train(**fields, gpus=64, global_batch=64).results
    with without_devices(TPUS):
        faster = perfatlas.train(**fields, gpus=64, global_batch=64).results
    speed = found.calibration.parameters["efficiency_kernels"]
    assert faster["step_time_s"] == pytest.approx(step["step_time_s"] * speed, rel=0.1)
    assert step["step_time_s_low"] < step["step_time_s"] < step["step_time_s_high"]
    assert faster["step_time_s_high"] is None


def test_slices_wait_for_each_other_and_chips_do_not() -> None:
    fields: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "engine": "maxtext",
        "recompute": "full",
    }
    one = perfatlas.train(**fields, system="v5p-128", gpus=64, global_batch=64).results
    many = perfatlas.train(
        **fields, system="v5p-128", gpus=256, global_batch=256, sharding_replicas=4
    ).results
    assert one["waterfall"]["jitter"] == 0.0
    assert many["waterfall"]["jitter"] > 0.0
    assert many["mfu"] < one["mfu"]


def test_steps_that_a_compiler_may_fit_are_answered_and_others_refused() -> None:
    fields: dict[str, Any] = {
        "model": "google/gemma-3-12b-it",
        "system": "tpu_v6e",
        "engine": "maxtext",
        "gpus": 256,
        "recompute": "full",
        "sequence_length": 32768,
    }
    answer = perfatlas.train(**fields, global_batch=256)
    assert any("memory is an upper estimate" in one for one in answer.warnings)
    assert not answer.results["memory"]["fits"]
    with pytest.raises(InfeasibleError, match="activations"):
        perfatlas.train(**fields, global_batch=2560, micro_batch=10)


def test_a_slice_states_its_chips_unless_a_field_does() -> None:
    fields: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm_tpu", "batch": 8}
    asked: list[dict[str, Any]] = [
        {"system": "v5e-8"},
        {"system": "v5e-16", "tp": 8},
        {"system": "v5e-8", "gpus": 4},
        {"system": "v5e-8", "tp": 2, "dp": 1},
    ]
    alone = [perfatlas.estimate(**fields, **one).results for one in asked]
    assert [one["gpus"] for one in alone] == [8, 16, 4, 2]
    names = ("system", "tp", "dp", "gpus")
    table: dict[str, Any] = {name: [one.get(name) for one in asked] for name in names}
    table |= {name: [value] * len(asked) for name, value in fields.items()}
    rows = perfatlas.estimate_table(table).columns
    assert rows["gpus"] == [8, 16, 4, 2]
    assert rows["tpot_s"] == [one["tpot_s"] for one in alone]


def test_prompts_and_synchronisation_have_the_constants_of_services() -> None:
    """Prompts: 2 x 4096^3 / 432 TFLOP/s / 0.76, and a point after a product of a row division."""
    found = find_schedule(resolve_system("gaudi2").device)
    assert found is not None
    constants = found.calibration.parameters
    devices = DeviceColumns(
        devices=(resolve_system("gaudi2").device,), index_C=np.zeros(1, np.int64)
    )
    product = replace(gemm(4096, 4096, 4096), phase=Phase.PREFILL)
    divided = replace(product, shard="row")
    prices = price_operators([product, divided], devices, family="", tier="auto")
    whole_s = 2 * 4096**3 / 432e12 / constants["efficiency_prefill"]
    apart_s = prices.time_s_CO[0] - whole_s
    assert apart_s == pytest.approx([0.0, constants["synchronisation_s"]], abs=1e-6)
    # a decode step of the same work has units at full speed
    decodes = replace(product, phase=Phase.DECODE)
    (time_s,) = price_operators([decodes], devices, family="", tier="auto").time_s_CO[0]
    assert time_s == pytest.approx(2 * 4096**3 / 432e12, rel=2e-3)


def test_few_rows_occupy_a_unit_that_changes_its_shape_for_fewer_clocks() -> None:
    """8192 x 8192 weights for 8 rows: 2 x 64 x 8192^2 / 432 TFLOP/s is less than the bytes."""
    time_s, bound = price_s(replace(gemm(8, 8192, 8192), phase=Phase.DECODE), "gaudi2")
    assert time_s == pytest.approx(2 * (8192**2 + 8 * 16384) / 2.46e12)
    assert bound == "memory"
    rigid = "gaudi2{device.fewest_rows=256}"
    time_s, bound = price_s(replace(gemm(8, 8192, 8192), phase=Phase.DECODE), rigid)
    assert time_s == pytest.approx(2 * 256 * 8192**2 / 432e12, rel=2e-3)


def test_keys_of_narrow_heads_load_in_as_many_clocks_as_heads_are_wide() -> None:
    """v7 side 256: 2 x 64 x 4096 / 8 rows x 256 x (128 of keys + 256 of values) / 2307 TFLOP/s."""
    decode = Attention(
        name="attention",
        phase=Phase.DECODE,
        count=np.ones(1),
        format="bf16",
        batch=np.ones(1),
        num_heads=np.full(1, 64.0),
        num_kv_heads=np.full(1, 8.0),
        head_dim=np.full(1, 128.0),
        value_head_dim=np.full(1, 128.0),
        window=np.zeros(1),
        q_len=np.ones(1),
        kv_len=np.full(1, 4096.0),
        kv_bytes_per_element=1.0,
    )
    time_s, bound = price_s(decode, "tpu_v7")
    assert time_s == pytest.approx(2 * 64 * 4096 / 8 * 256 * (128 + 256) / 2307e12)
    assert bound == "compute"


def test_a_layer_of_experts_takes_the_overhead_of_published_services() -> None:
    """Qwen3.5-397B with 4 requests: 13.1 ms per token are published, 2.5 ms without overhead."""
    fields: dict[str, Any] = {"model": "Qwen/Qwen3.5-397B-A17B", "system": "tpu7x-2x2x1"}
    fields |= {"engine": "vllm_tpu", "format": "fp8", "kv_format": "fp8", "attention_dp": 4}
    fields |= {"batch": 1, "isl": 922, "osl": 922}
    found = find_schedule(resolve_system("tpu_v7").device)
    assert found is not None
    answer = perfatlas.estimate(**fields)
    layers_s = 60 * found.calibration.parameters["overhead_experts_s"]
    assert layers_s < answer.results["tpot_s"] < layers_s + 4e-3
    assert answer.results["tpot_s_low"] < 13.1e-3 < answer.results["tpot_s_high"]
    assert "two models on TPU v7" in " ".join(answer.evidence.assumptions)


def test_direct_ports_send_shares_and_tori_of_chips_ring() -> None:
    # Gaudi 2, all-reduce over 8: 2 x (2 us + 1/8 of the bytes over 7 pairs of 37.5 GB/s)
    assert collective_s("gaudi2", "all_reduce", 1e9, 8) == pytest.approx(
        2 * (2e-6 + 7 / 8 * 1e9 / 262.5e9), rel=1e-3
    )
    # Trainium: a gather over the 4x4 torus, 192 GB/s in and out: V / (2 x 192 GB/s)
    assert collective_s("trainium1", "all_gather", 1e9, 16) == pytest.approx(1e9 / 192e9)


def test_experts_of_services_are_wider_and_say_so() -> None:
    fields: dict[str, Any] = {"system": "gaudi3", "engine": "ideal", "tp": 8, "batch": 8}
    fields |= {"isl": 512, "osl": 64}
    dense = perfatlas.estimate(model="meta-llama/Llama-3.1-8B", **fields)
    sparse = perfatlas.estimate(model="mistralai/Mixtral-8x7B-v0.1", **fields)
    wide, narrow = (one.results["tpot_s_high"] / one.results["tpot_s"] for one in (sparse, dense))
    assert narrow < 1.6 < wide <= 3.0 * narrow
    said = ["experts in services" in " ".join(one.evidence.assumptions) for one in (dense, sparse)]
    assert said == [False, True]


def test_training_on_devices_of_services_is_a_lower_limit() -> None:
    fields: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "gpus": 16, "global_batch": 16}
    answer = perfatlas.train(**fields, tp=4, system="trainium1", engine="generic")
    assert answer.results["step_time_s_high"] is None
    with pytest.raises(UnsupportedError, match=r"maxtext.*Google"):
        perfatlas.train(**fields, system="trainium1", engine="maxtext")
    with pytest.raises(UnsupportedError, match=r"neuronx.*gaudi3"):
        perfatlas.estimate(
            model="meta-llama/Llama-3.1-8B", system="gaudi3", engine="neuronx", batch=1
        )


def test_a_product_alone_may_run_at_its_roofline() -> None:
    """Units of Trainium 2 have 0.15 of their speed in whole prompts: 667 TFLOP/s are possible."""
    fields: dict[str, Any] = {"system": "trainium2", "m": 8192, "n": 8192, "k": 8192}
    found = perfatlas.kernel_gemm(**fields).results
    assert found["time_s_low"] == found["bound_time_s"] < 0.2 * found["time_s"]


def test_the_interval_of_a_product_holds_the_fastest_that_was_published() -> None:
    """418.7 TFLOP/s, 97% of the peak: stas00/ml-engineering compute/accelerator/README.md, MAMF."""
    found = perfatlas.kernel_gemm(system="gaudi2", m=14336, n=15360, k=2048).results
    published_s = 2.0 * 14336 * 15360 * 2048 / 418.7e12
    assert found["time_s_low"] < published_s < found["time_s"]


def test_smaller_batches_than_a_machine_is_fitted_to_are_named() -> None:
    fields: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "engine": "ideal"}
    fields |= {"isl": 512, "osl": 64}
    said = [
        any("have batches of 75 and more" in text for text in answer.warnings)
        for answer in (
            perfatlas.estimate(**fields, system="gaudi3", batch=74),
            perfatlas.estimate(**fields, system="gaudi3", batch=75),
            perfatlas.estimate(**fields, system="gaudi2", batch=1),
        )
    ]
    assert said == [True, False, False]


def conv_s(system: str, sizes: dict[str, Any]) -> float:
    """Return the time of a convolution without the losses of a calibration [s]."""
    with without_devices((*TPUS, *OTHERS)):
        return float(perfatlas.kernel_op("conv", system=system, **sizes).results["time_s"])


def test_convolutions_fill_tiles_of_the_matrix_units() -> None:
    """3 x 3 of 64 channels, 64 images of 56 x 56: k = 576 fills 4.5 squares of 128, n = 64 half."""
    sizes = {"batch": 64, "channels": 64, "height": 56, "width": 56}
    sizes |= {"filters": 64, "kernel": 3, "padding": 1}
    rows = 64 * 56 * 56
    assert conv_s("tpu_v5e", sizes) == pytest.approx(2 * rows * 640 * 128 / 197e12)
    # 256 x 256: 2.25 squares of k in 3, a quarter of n
    assert conv_s("tpu_v6e", sizes) == pytest.approx(2 * rows * 768 * 256 / 918e12)


def test_groups_of_few_channels_become_one_product() -> None:
    """32 groups of 4 channels: k = 32 x 36 and n = 32 x 4, not 32 products padded to 128 x 128."""
    rows, ones = 64 * 56 * 56, np.ones(1)
    grouped = replace(gemm(32.0 * rows, 4, 36), groups=32 * ones, input_bytes_per_element=2 / 9)
    assert price_s(grouped)[0] == pytest.approx(2 * rows * 1152 * 128 / 197e12)
    # activations have no filter that could be masked
    apart = replace(grouped, has_weights=False)
    assert price_s(apart)[0] == pytest.approx(32 * 2 * rows * 128 * 128 / 197e12)
    # groups that fill the squares stay apart
    wide = replace(gemm(2 * 4096, 1024, 1024), groups=2 * ones)
    assert price_s(wide)[0] == pytest.approx(2 * price_s(gemm(4096, 1024, 1024))[0])


def test_depthwise_convolutions_multiply_in_the_vector_units() -> None:
    """5 x 5: 50 operations of each output, in 4096 lanes of 1.5 GHz, take longer than 4 MB."""
    outputs = 1e6
    depthwise = Streaming(
        name="depthwise_conv_1",
        phase=Phase.FORWARD,
        count=np.ones(1),
        stream="depthwise_conv",
        tokens=np.ones(1),
        read_bytes=np.full(1, 2 * outputs),
        write_bytes=np.full(1, 2 * outputs),
        cold_read_bytes=np.zeros(1),
        taps=25.0,
    )
    assert price_s(depthwise)[0] == pytest.approx(50 * outputs / (4096 * 1.5e9))
    # without taps, an operation of each element is less than its bytes
    assert price_s(replace(depthwise, taps=0.0))[0] == pytest.approx(4 * outputs / 819e9)
