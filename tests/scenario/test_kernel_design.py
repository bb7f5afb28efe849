"""Kernels under design: queueing by hand, limits, refusals, published speeds."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.energy import board_energy, energy_data, with_energy
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import pipeline
from perfatlas.machines.gpu.pipeline.pricing import sm_cycles
from perfatlas.scenario.operator_queries import QUERIES, PricedQueries
from perfatlas.verbs.kernel import kernel_design_attention, kernel_design_gemm
from tests.examples import few
from validation.kernels.design import anchors, ratios

ATTENTION: dict[str, Any] = {"system": "h100_sxm", "batch": 4, "num_heads": 16}
GEMM: dict[str, Any] = {"system": "h100_sxm", "m": 4096, "n": 4096, "k": 7168}
TILE = {"tile_m": 128, "tile_n": 128}


def test_two_programs_share_units_in_the_order_of_arrival() -> None:
    # tensor: A 0-10, B 10-20; A's softmax 10-18 hides behind B's product, B's waits for neither
    programs = [
        [
            pipeline.Step(event=("product", name), holds={"tensor": 10.0}, waits=False),
            pipeline.Step(
                event=("softmax", name), after=(("product", name),), holds={"issue": 8.0}
            ),
            pipeline.Step(event=("values", name), holds={"tensor": 5.0}),
        ]
        for name in "AB"
    ]
    found = pipeline.run_programs(programs)
    assert found.cycles == 33.0  # B's softmax ends at 28, its second product at 33
    assert found.busy == {"tensor": 30.0, "issue": 16.0}
    tensor = [(one.start, one.end) for one in found.intervals if one.unit == "tensor"]
    assert tensor == [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0), (28.0, 33.0)]


def test_programs_that_wait_for_each_other_are_refused() -> None:
    steps = [[pipeline.Step(event="a", after=("b",))], [pipeline.Step(event="b", after=("a",))]]
    with pytest.raises(ValueError, match="wait for each other"):
        pipeline.run_programs(steps)


@given(
    tiles=st.dictionaries(st.integers(1, 50).map(float), st.integers(1, 40), min_size=1),
    sm_count=st.integers(1, 9),
)
def test_the_longest_tiles_start_first_wherever_an_sm_is_free(
    tiles: dict[float, int], sm_count: int
) -> None:
    free = [0.0] * sm_count
    for cycles in sorted(tiles, reverse=True):
        for _ in range(tiles[cycles]):
            heapq.heapreplace(free, free[0] + cycles)
    assert sm_cycles(tiles, sm_count) == max(free)


def test_endless_exponentials_leave_the_tensor_cores_as_the_limit() -> None:
    device = resolve_system("h100_sxm").device
    family, silicon = (
        pipeline.family_of("attention", device, "bf16"),
        pipeline.kernel_silicon(device, "bf16"),
    )
    sizes: dict[str, Any] = {"batch": 8, "heads": 16, "kv_heads": 16, "head_dim": 128}
    work = pipeline.AttentionWork(**sizes, q_len=16384, kv_len=16384, causal=False)
    family = replace(family, fp32_per_score=0.0, comparisons_per_score=0.0)
    found = pipeline.design_kernel(work, family, replace(silicon, exponentials=1e12), 1.0)
    assert found.limiting_unit == "tensor cores"
    # 2 GEMMs of 2 x 128 x 176 x 128 FLOP at 4096 per cycle, 94 blocks
    assert found.units["tensor cores"] == pytest.approx(94 * 2 * 2 * 128 * 176 * 128 / 4096)
    assert found.tile_cycles < 1.05 * found.units["tensor cores"]


@given(length=st.integers(128, 32768), more=st.integers(1, 4096))
def test_attention_is_no_faster_than_its_roofline_nor_with_more_keys(
    length: int, more: int
) -> None:
    results = kernel_design_attention(**ATTENTION, **TILE, kv_len=length).results
    assert results["bound_time_s"] <= results["time_s_low"] < results["time_s"]
    longer = kernel_design_attention(**ATTENTION, **TILE, kv_len=length + more).results
    assert longer["time_s"] >= results["time_s"]


@given(k=st.integers(64, 16384), more=st.integers(1, 4096), name=st.sampled_from("mnk"))
def test_a_product_is_no_faster_with_more_work(k: int, more: int, name: str) -> None:
    asked = {**GEMM, **TILE, "k": k, "format": "fp8_block"}
    results = kernel_design_gemm(**asked).results
    assert results["bound_time_s"] < results["time_s"]
    larger = kernel_design_gemm(**{**asked, name: asked[name] + more}).results
    assert larger["time_s"] >= results["time_s"]


def test_stages_hide_the_copies_until_another_unit_limits() -> None:
    asked = {**GEMM, **TILE, "m": 1024}
    times = [kernel_design_gemm(**asked, stages=n).results["time_s"] for n in range(1, 7)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 2.0 * times[-1]
    assert times[-1] == times[-2]


@pytest.mark.parametrize(
    ("override", "least"),
    [
        ("device.tdp=300W", 1.1),
        ("device.clock.sustained=1GHz", 1.1),
        ("device.clock.boost=4GHz", 0.0),
        ("device.peak.bf16=100TFLOP/s", 1.1),
    ],
)
@pytest.mark.parametrize("system", few(["h200_sxm", "b200_sxm"], every=2))
def test_no_power_limit_or_clock_makes_a_kernel_faster_than_its_roofline(
    system: str, override: str, least: float
) -> None:
    changed = f"{system}{{{override}}}"
    shape: dict[str, Any] = {"batch": 4, "kv_len": 8192, "num_heads": 32, "num_kv_heads": 8}
    for ask, asked in ((kernel_design_attention, shape), (kernel_design_gemm, GEMM)):
        own = ask(**{**asked, "system": system}).results["time_s"]
        found = ask(**{**asked, "system": changed}).results
        assert found["bound_time_s"] <= found["time_s_low"] <= found["time_s"]
        assert found["time_s"] <= found["time_s_high"]
        assert found["time_s"] > least * own


@pytest.mark.parametrize(
    "fields",
    [
        {"num_heads": 16, "kv_len": 16384, "head_dim": 64},
        {"num_heads": 32, "kv_len": 256, "system": "b200_sxm"},
        {"m": 128, "n": 4096, "k": 7168, "format": "fp8", "groups": 32, "system": "b200_sxm"},
        {"m": 1, "n": 4096, "k": 7168},
    ],
)
def test_no_unit_works_longer_than_the_kernel(fields: dict[str, Any]) -> None:
    ask = kernel_design_gemm if "m" in fields else kernel_design_attention
    results = ask(**{"system": "h100_sxm", **fields}).results
    assert all(0.0 < row["share"] <= 1.0 for row in results["units"])
    cycles = {row["unit"]: row["cycles"] for row in results["units"]}
    assert all(cycles[unit] <= results["tile_cycles"] for unit in cycles if unit != "device memory")


def test_a_pair_of_blocks_computes_two_rows_of_tiles() -> None:
    asked: dict[str, Any] = {"system": "b200_sxm", "n": 4096, "k": 7168, "tile_m": 128}
    alone = kernel_design_gemm(**asked, m=128, tile_n=64).results
    assert (alone["ctas_per_mma"], alone["inner_dimension"]) == (1, "stream-K")
    assert kernel_design_gemm(system="b200_sxm", m=1, n=1, k=1).results["ctas_per_mma"] == 1
    work = pipeline.GemmWork(m=384, n=512, k=512, groups=1, element_bytes=2.0, promotes=False)
    tile = pipeline.KernelTile(m=128, n=128, k=64, stages=4, warpgroups=1, paired=True)
    assert work.blocks(tile) == {8: 16}  # 4 rows, the last one empty


def test_few_tiles_without_split_k_give_an_upper_limit() -> None:
    few: dict[str, Any] = {"m": 1, "n": 2112, "k": 7168}
    answer = kernel_design_gemm(**few, system="h100_sxm", format="fp8_block")
    assert not {"time_s_low", "time_s_high"} & answer.results.keys()
    assert any("upper limit, without split-K" in text for text in answer.warnings)
    assert "time_s_low" in kernel_design_gemm(system="h100_sxm", m=4096, n=4096, k=512).results


@pytest.mark.parametrize("k", [256, 2048, 8192])
def test_products_that_leave_sms_idle_are_split_and_others_are_not(k: int) -> None:
    asked: dict[str, Any] = {"system": "b200_sxm", "n": 1024, "k": k}
    few, many = (kernel_design_gemm(**asked, m=m).results for m in (64, 16384))
    assert many["inner_dimension"] == "whole"
    assert few["time_s_low"] < few["time_s"] < few["time_s_high"]
    whole = kernel_design_gemm(**asked, m=64, format="bf16", groups=2).results["time_s"]
    assert few["time_s"] <= whole


def test_parts_of_the_inner_dimension_by_hand() -> None:
    work = pipeline.GemmWork(m=256, n=256, k=4096, groups=1, element_bytes=2.0, promotes=False)
    tile = pipeline.KernelTile(m=128, n=128, k=64, stages=4, warpgroups=1)
    assert work.blocks(tile) == {64: 4}
    assert work.blocks(replace(tile, splits=4)) == {16: 16}
    # 4 partial outputs of 256 x 256 in FP32, written and read
    assert work.partial_bytes(replace(tile, splits=4)) == 4 * 2 * 4 * 256 * 256
    device = resolve_system("b200_sxm").device
    family, silicon = (
        pipeline.family_of("gemm", device, "bf16"),
        pipeline.kernel_silicon(device, "bf16"),
    )
    # stream-K: 256 blocks on 148 SMs are 2 each, and every SM has one share
    design = pipeline.design_kernel(work, family, silicon, 0.6, replace(tile, streamed=True))
    assert (design.tiles, design.tile.streamed) == (148, True)
    whole = pipeline.design_kernel(work, family, silicon, 0.6, tile)
    assert (
        whole.time_s
        < pipeline.design_kernel(replace(work, groups=2), family, silicon, 0.6, tile).time_s
    )


@pytest.mark.parametrize(
    ("series", "system", "goal"),
    [
        ("fa3", "", 0.06),
        ("fa4 2500 TFLOP/s, table 2", "gb300", 0.10),
        ("fa4 2500 TFLOP/s, table 2", "b300_sxm", 0.10),
        ("deepgemm", "", 0.07),
        ("deepgemm grouped", "", 0.06),
        ("hopper bf16", "", 0.10),
    ],
)
def test_shipped_constants_keep_their_median_error(series: str, system: str, goal: float) -> None:
    rows = [row for row in anchors() if row.series == series]
    assert np.median(np.abs(np.array(ratios(rows, system=system)) - 1.0)) <= goal


def test_families_have_a_bounded_clock_factor() -> None:
    for family in pipeline.kernel_families():
        assert all(0.5 < factor <= 0.95 for factor in family.clock_factor.values())


@pytest.mark.parametrize("system", ["h100_sxm", "b200_sxm", "gb300"])
def test_both_models_of_a_kernel_agree_within_their_intervals(system: str) -> None:
    shape = {**ATTENTION, "system": system, "kv_len": 4096}
    answers = [
        *(kernel_design_attention(**shape, mask=mask) for mask in ("causal", "none")),
        *(kernel_design_gemm(system=system, m=4096, n=4096, k=k) for k in (512, 7168)),
    ]
    for results in (answer.results for answer in answers):
        assert results["time_s_low"] <= results["kernel_time_s_high"]
        assert results["kernel_time_s_low"] <= results["time_s_high"]


def test_decode_packs_heads_and_splits_keys_by_hand() -> None:
    work = pipeline.AttentionWork(
        batch=2, q_len=1, kv_len=8192, heads=64, kv_heads=8, head_dim=128, causal=True, packed=True
    )
    tile = pipeline.KernelTile(m=64, n=128, k=128, stages=4, warpgroups=1)
    # 8 queries share the keys of one of 2 x 8 KV heads
    assert (work.packed_rows, work.blocks(tile)) == (8, {64: 16})
    assert work.blocks(replace(tile, splits=8)) == {8: 128}
    few = kernel_design_attention(**ATTENTION | {"batch": 1}, kv_len=65536, phase="decode").results
    assert few["inner_dimension"].startswith("split in ")
    many = kernel_design_attention(**ATTENTION | {"batch": 64}, kv_len=4096, phase="decode").results
    assert many["limiting_unit"] == "device memory"


def test_the_device_memory_is_one_of_the_units_that_limit() -> None:
    latent = {"kind": "mla", "phase": "decode", "kv_lora_rank": 512, "rope_dim": 64}
    sizes = {"num_heads": 128, "batch": 64, "kv_len": 4096, "head_dim": 128}
    results = kernel_design_attention(system="h100_sxm", **latent, **sizes).results
    shares = {row["unit"]: row["share"] for row in results["units"]}
    gains = {row["change"]: row["speedup"] for row in results["what_if"]}
    assert gains["twice the memory bandwidth"] > gains["twice the tensor rate"]
    assert results["limiting_unit"] == max(shares, key=shares.__getitem__) == "device memory"


@pytest.mark.parametrize("system", ["h100_sxm", "b200_sxm"])
def test_the_backward_pass_takes_longer_than_the_forward_pass(system: str) -> None:
    asked: dict[str, Any] = {"system": system, "batch": 4, "num_heads": 16, "kv_len": 8192}
    forward = kernel_design_attention(**asked)
    backward = kernel_design_attention(**asked, direction="backward")
    ratio = backward.results["time_s"] / forward.results["time_s"]
    assert 2.0 < ratio < 4.5  # 2.5 times the products
    assert backward.results["flop"] == pytest.approx(2.5 * forward.results["flop"])


def test_a_causal_backward_pass_runs_the_blocks_that_see_its_keys() -> None:
    base: dict[str, Any] = {"batch": 1, "heads": 1, "kv_heads": 1, "head_dim": 128}
    work = pipeline.AttentionWork(**base, q_len=512, kv_len=512, causal=True, backward=True)
    tile = pipeline.KernelTile(m=128, n=64, k=128, stages=4, warpgroups=2)
    # keys from 0, 128, 256 and 384 are seen by 512, 384, 256 and 128 queries
    assert work.blocks(tile) == {8: 1, 6: 1, 4: 1, 2: 1}
    assert replace(work, causal=False).blocks(tile) == {8: 4}


def test_a_design_takes_the_energy_of_its_work_and_of_issuing_for_its_time_by_hand() -> None:
    query = QUERIES["gemm"]
    shape = {"system": "h20", "m": 4096, "n": 4096, "k": 4096}
    priced = query.priced([query.schema.ask(shape)])
    measured = {name: cells[0] for name, cells in priced.results().items()}
    time_s = measured["time_s"]
    same = priced.energy_in(time_s, None)
    assert same == {name: pytest.approx(measured[name]) for name in ("power_w", "energy_j")}
    # a millisecond more: the board without kernels, and SMs that issue for their share of it
    board, shares = board_energy(priced.system.device), energy_data()["issue_share"]
    more_j = priced.energy_in(time_s + 1e-3, None)["energy_j"] - measured["energy_j"]
    share = float(priced.prices.chip_energy_j_CO[0, 0] / _chip_j(priced))
    watts = board.on_w + share * shares["products"]["value"] * board.issue_w
    assert more_j == pytest.approx(1e-3 * watts)


def _chip_j(priced: PricedQueries) -> float:
    """Return the energy of the chip at the voltage of the highest clock [J]."""
    found = with_energy([priced.operator], priced.prices, priced.devices)
    return float(found.chip_energy_j_CO[0, 0])


@given(splits=st.floats(1.0, 10.0))
def test_a_slower_kernel_draws_less_power_and_takes_more_energy(splits: float) -> None:
    query = QUERIES["gemm"]
    priced = query.priced([query.schema.ask({"system": "h100_sxm", "m": 64, "n": 4096, "k": 4096})])
    time_s = priced.results()["time_s"][0]
    quick, slow = (priced.energy_in(one, (one, one)) for one in (time_s, splits * time_s))
    assert slow["power_w"] <= quick["power_w"] * (1.0 + 1e-9)
    assert slow["energy_j"] >= quick["energy_j"] * (1.0 - 1e-9)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_heads": 16, "kv_len": 4096},
        {"num_heads": 16, "kv_len": 4096, "system": "b200_sxm"},
        {"num_heads": 128, "kv_len": 4096, "kind": "mla", "phase": "decode"},
        {"num_heads": 16, "kv_len": 64},
        {"m": 4096, "n": 4096, "k": 7168, "format": "fp8_block"},
        {"m": 1, "n": 1, "k": 1},
    ],
)
def test_units_do_one_thing_at_a_time_in_an_iteration(fields: dict[str, Any]) -> None:
    ask = kernel_design_gemm if "m" in fields else kernel_design_attention
    results = ask(**{"system": "h100_sxm", **fields}).results
    cycles, rows = results["iteration_cycles"], results["timeline"]
    for unit in {row["unit"] for row in rows}:
        own = sorted((r["start_cycles"], r["end_cycles"]) for r in rows if r["unit"] == unit)
        assert own[0][0] >= 0.0
        assert own[-1][1] <= cycles
        assert all(one[1] <= other[0] + 1e-9 for one, other in itertools.pairwise(own))


LATENT: dict[str, Any] = {"kind": "mla", "phase": "decode", "kv_len": 8192}


def test_latent_decode_reads_each_key_once_by_hand() -> None:
    work = pipeline.AttentionWork(
        batch=2,
        q_len=1,
        kv_len=128,
        heads=64,
        kv_heads=1,
        head_dim=576,
        causal=False,
        packed=True,
        latent_dim=512,
    )
    # 128 keys of 576, 64 queries of 576 and 64 outputs of 512, two bytes each
    assert work.memory_bytes() == 2 * 2 * (128 * 576 + 64 * (576 + 512))
    device = resolve_system("h100_sxm").device
    family, silicon = (
        pipeline.family_of("attention", device, "bf16"),
        pipeline.kernel_silicon(device, "bf16"),
    )
    design = pipeline.design_kernel(work, family, silicon, 0.6)
    # FlashMLA: products of 64 x 64 x 576 and 64 x 64 x 512 at 4096 FLOP per cycle
    blocks = 2 / design.tile.splits
    assert design.units["tensor cores"] == pytest.approx(blocks * 2 * 64 * 64 * (576 + 512) / 4096)
    assert design.units["copy engine"] == pytest.approx(blocks * 64 * 576 * 2 / 84)


@pytest.mark.parametrize("system", ["h800_sxm", "b200_sxm"])
def test_latent_decode_grows_with_heads_and_keys(system: str) -> None:
    asked = {**LATENT, "system": system, "batch": 64, "num_heads": 64}
    answer = kernel_design_attention(**asked)
    for more in ({"num_heads": 128}, {"kv_len": 16384}, {"batch": 128}):
        longer = kernel_design_attention(**{**asked, **more}).results
        assert longer["time_s"] > answer.results["time_s"] >= answer.results["bound_time_s"]
    assert "time_s_low" not in answer.results
    assert any("too few speeds of latent decode" in text for text in answer.warnings)
