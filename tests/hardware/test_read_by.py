"""Each field of a spec is changed alone: the affected results are those the schema declares."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import pytest

import perfatlas
from perfatlas.cost import chip_cost
from perfatlas.energy import board_energy, switch_optics_w
from perfatlas.hardware import FIELDS, resolve_system
from perfatlas.hardware.catalog import catalog_spec
from perfatlas.quantities import PerfatlasError, UnsupportedError
from perfatlas.vocabulary.metrics import METRICS
from tests.golden.flatten import predicted

BASE = "b200_sxm"  # two dies, and peaks in every format but two
LLAMA = "meta-llama/Llama-3.1-8B"
MOE: dict[str, Any] = {
    "tokens": 64,
    "hidden": 4096,
    "intermediate": 1536,
    "experts": 128,
    "top_k": 8,
}
HEADS: dict[str, Any] = {"num_heads": 32, "num_kv_heads": 8, "kv_len": 4096}


def gemm(system: str, **fields: Any) -> Any:  # noqa: ANN401 - results
    return perfatlas.kernel_gemm(system=system, n=8192, k=8192, **{"m": 4096, **fields}).results


def stencil(system: str) -> Any:  # noqa: ANN401 - results, with the share of the peak
    return perfatlas.kernel_op("stencil", system=system, width=2**24).results


def reduced(system: str, gpus: int, op: str = "all_reduce", size: int = 2**26) -> Any:  # noqa: ANN401 - results
    fields: dict[str, Any] = {"op": op, "bytes": size, "gpus": gpus}
    return perfatlas.collective(system=system, **fields).results


def routed(system: str) -> Any:  # noqa: ANN401 - results
    asked: dict[str, Any] = {"op": "all_to_all", "bytes": 2**26, "gpus": 4096}
    return perfatlas.collective(system=system, **asked, fabric_routing="ecmp").results


def designed(ask: Callable[..., Any], system: str, **fields: Any) -> Any:  # noqa: ANN401 - results
    try:
        results = ask(system=system, **fields).results
    except UnsupportedError:  # devices whose kernels are not modelled
        return {}
    return {name: results[name] for name in ("time_s", "stages", "tile_cycles")}


def elementwise(system: str) -> Any:  # noqa: ANN401 - results
    rows = perfatlas.estimate(model=LLAMA, system=system, batch=8, isl=4096).breakdown
    names = ("embedding", "activation", "rope_and_cache")
    return {f"{row['phase']} {row['name']}": row["time_s"] for row in rows if row["name"] in names}


def norm(system: str, tokens: int, tier: Literal["auto", "bound"]) -> Any:  # noqa: ANN401 - results
    found = perfatlas.kernel_op("norm", system=system, tokens=tokens, width=8192, tier=tier)
    return {"time_s": found.results["time_s"]}


def steps(system: str, engine: str) -> Any:  # noqa: ANN401 - results
    model = "openai/gpt-oss-20b"
    return perfatlas.estimate(model=model, system=system, batch=8, tp=2, engine=engine).results


def offloaded(system: str) -> Any:  # noqa: ANN401 - results
    return perfatlas.simulate(
        model=LLAMA,
        system=system,
        request_rate=4,
        num_requests=12,
        turns=3,
        isl=2000,
        osl=8,
        kv_blocks=600,
        host_cache_bytes="40 GB",
    ).answer.results["ttft_s"]


def second(system: str) -> Any:  # noqa: ANN401 - results
    found = perfatlas.estimate(model=LLAMA, system=system, weight_offload=0.5).results
    return {"joules": found["energy_per_output_token_j"], **found["memory"], "s": found["tpot_s"]}


def board(system: str) -> Any:  # noqa: ANN401 - energies and powers, without the note
    found = vars(board_energy(resolve_system(system).device))
    return {name: value for name, value in found.items() if name != "notes"}


def chip(system: str) -> Any:  # noqa: ANN401 - costs by part
    found = chip_cost(resolve_system(system).device)
    return {name: usd[0] for name, usd in found.parts_usd.items()}


QUESTIONS: dict[str, tuple[Callable[[str], Any], ...]] = {
    "matrix products": (gemm, lambda s: gemm(s, m=64)),
    "fp16 operators": (lambda s: gemm(s, format="fp16"),),
    "fp8 operators": (lambda s: gemm(s, format="fp8_block"),),
    "fp4 operators": (lambda s: gemm(s, format="nvfp4"),),
    "int8 operators": (lambda s: gemm(s, format="int8"),),
    "fp32 operators": (lambda s: gemm(s, format="fp32"),),
    "fp64 operators": (lambda s: gemm(s, format="fp64"),),
    "fp64_vector operators": (stencil,),
    "attention": (
        lambda s: perfatlas.kernel_attention(system=s, phase="prefill", **HEADS).results,
        lambda s: perfatlas.kernel_attention(system=s, batch=64, **HEADS).results,
    ),
    "matrix products under design": (
        lambda s: designed(perfatlas.kernel_design_gemm, s, m=4096, n=8192, k=8192),
        lambda s: designed(perfatlas.kernel_design_gemm, s, m=8192, n=8192, k=512),
    ),
    "attention under design": (
        lambda s: designed(perfatlas.kernel_design_attention, s, **HEADS),
        lambda s: designed(perfatlas.kernel_design_attention, s, **HEADS, tile_m=128, tile_n=160),
    ),
    "experts": (
        lambda s: perfatlas.kernel_moe(system=s, **MOE).results,
        lambda s: perfatlas.kernel_moe(system=s, **{**MOE, "tokens": 16384}).results,
    ),
    "elementwise operators": (
        elementwise,
        lambda s: norm(s, 512, "auto"),
        lambda s: norm(s, 512, "bound"),
        lambda s: norm(s, 4096, "bound"),
    ),
    "KV cache capacity": (
        lambda s: perfatlas.estimate(model=LLAMA, system=s, batch=8).results["memory"],
    ),
    "collectives inside a scale-up domain": (
        lambda s: reduced(s, 8),
        lambda s: reduced(s, 8, "all_to_all"),
        lambda s: reduced(s, 4, size=2**12),
    ),
    "collectives between nodes": (
        lambda s: reduced(s, 32),
        lambda s: reduced(s, 4096),
        lambda s: reduced(s, 4096, "all_to_all", 2**30),
        lambda s: reduced(s, 64, "all_gather", 2**20),
        lambda s: reduced(s, 16, "all_gather", 2**20),
    ),
    "routes of flows between nodes": (routed,),
    "KV cache offloading": (offloaded,),
    "weight_offload and kv_offload": (second,),
    "power and energy": (board,),
    "chip cost": (chip,),
    "power of nodes": (lambda s: {"optics": switch_optics_w(resolve_system(s).node)},),
    "rules of engines": (lambda s: steps(s, "vllm"), lambda s: steps(s, "trtllm")),
}
WATTS = [metric.name for metric in METRICS.values() if metric.unit in ("W", "J")]
# whole steps and collectives, which read all the rest too
WHOLE = (
    "KV cache offloading",
    "rules of engines",
    "routes of flows between nodes",
    "weight_offload and kv_offload",
)
CHIP = "chip cost"  # which the units of a chip change too
FORMATS = tuple(
    f"{name} operators" for name in ("fp16", "fp8", "fp4", "int8", "fp32", "fp64", "fp64_vector")
)
OTHER = {
    "device.vendor": "AMD",
    "device.architecture": "hopper",
    "device.scale_up.kind": "pcie",
    "node": "nvl72_gb300",
    "fabric": "ethernet_roce",
    "fabric.kind": "ethernet",
    "fabric.topology": "fat_tree",
    "device.dies": 4,
    "device.interposer": "cowos_r",
    "device.year": 2031,
    "fabric.oversubscription": 8,
    "device.clock.sustained": "1.2 GHz",
}
ELSEWHERE = {  # where the base does not state or read them
    "device.calibration_relative": ("gh200", "h100_sxm"),
    "device.l2": ("h200_sxm", "30 MB"),
    "device.tdp": ("h200_sxm", "350W"),  # a higher one changes nothing
    "device.peak.fp64_vector": ("h200_sxm", "30 TFLOP/s"),
    "device.matrix_units": ("lpu", "2"),
    "device.flop_per_clock_per_unit": ("lpu", "51200"),
    "device.stream_bytes_per_clock": ("lpu", "1000"),
    "device.feed_bytes_per_clock": ("lpu", "100"),
    "device.vector_lanes": ("lpu", "100"),
    "device.fill_cycles": ("lpu", "1000"),
    "device.fewest_rows": ("tpu_v5e", "10000"),
    "device.vmem": ("tpu_v5p", "10 KB"),
    "device.matrix_side": ("tpu_v5e", "10000"),
    "device.wraparound_multiple": ("v5e-8", "2"),
    "fabric.pod_nodes": ("mi250x", "32"),
    "fabric.pod_oversubscription": ("mi250x", "4"),
    "fabric.switch_latency": ("mi300a", "5us"),
    "fabric.pods": ("mi300a", "100"),
    "fabric.planes": ("b200_sxm", "2"),
    "node.topology": ("l40s", "two_switches_8"),
    "node.peer_access": ("l40s", "yes"),
    "node.switch_optics": ("h100_sxm", "co_packaged"),
}
CHANGED = [
    path for path in FIELDS if path != "device.kind"
]  # which fields there are follows from it
WITH = {
    **dict.fromkeys(  # without it leaves do not matter
        ("fabric.leaf_nodes", "fabric.radix", "fabric.topology"), "fabric.oversubscription=8, "
    ),
    **dict.fromkeys(
        (
            *("device.second_memory.bandwidth", "device.second_memory.latency"),
            *("device.second_memory.energy_per_byte", "device.host_link.bandwidth"),
        ),
        "device.second_memory.capacity=64GB, ",
    ),
    "device.second_memory.usd_per_gb": "device.second_memory.capacity=64GB, ",
    "device.dies": "device.die_to_die.bandwidth=1TB/s, ",
}


def bases(path: str) -> tuple[str, str]:
    """Return a system, and the same with one field changed by a tenth, or doubled."""
    entry = catalog_spec(BASE).entries.get(path)
    more = WITH.get(path, "")
    value: Any = OTHER.get(path)
    if value is None and entry is None and (default := FIELDS[path].default) is not None:
        value = 1.1 * default or 1e-6 * getattr(FIELDS[path].reader, "most", 1e6)
    if value is None and entry is None:
        pytest.fail(
            f"{BASE} has no {path}: add a line to ELSEWHERE, a system that has it and another value"
        )
    if value is None and entry is not None:
        value = entry.value
        if isinstance(value, bool):
            value = str(not value).lower()
        else:
            small = float(value).is_integer() and float(value) < 1000
            value = 2 * value if small else 1.1 * value
    return f"{BASE}{{{more}}}".replace(", }", "}").replace(
        "{}", ""
    ), f"{BASE}{{{more}{path}={value}}}"


@cache
def answered(reader: str, number: int, system: str) -> Any:  # noqa: ANN401 - results, or a refusal
    try:
        found = predicted(QUESTIONS[reader][number](system))
    except PerfatlasError as problem:
        return str(problem).replace(system, "").replace(system.split("{", maxsplit=1)[0], "")
    return {name: value for name, value in found.items() if name not in WATTS}


def moves(reader: str, base: str, system: str) -> bool:
    places = range(len(QUESTIONS[reader]))
    return any(answered(reader, at, system) != answered(reader, at, base) for at in places)


def compared(path: str) -> tuple[str, str]:
    """Return a system and the same with one field changed."""
    if path in ELSEWHERE:
        base, value = ELSEWHERE[path]
        return base, f"{base}{{{path}={value}}}"
    return bases(path)


@pytest.mark.parametrize("path", [path for path in CHANGED if FIELDS[path].read_by])
def test_a_change_moves_the_declared_consumers(path: str) -> None:
    base, system = compared(path)
    declared = set(FIELDS[path].read_by)
    assert {name for name in declared if moves(name, base, system)} == declared


@pytest.mark.study
@pytest.mark.parametrize("path", CHANGED)
def test_a_change_moves_no_other_consumers(path: str) -> None:
    base, system = compared(path)
    declared = set(FIELDS[path].read_by)
    read = {name for name in QUESTIONS if name != CHIP or name in declared}
    moved = {name for name in read if name not in WHOLE and moves(name, base, system)}
    if declared.isdisjoint(FORMATS):  # the other kinds of readers include theirs
        moved -= set(FORMATS)
    if not moved or not declared.isdisjoint(WHOLE):
        moved |= {name for name in (*WHOLE, CHIP) if moves(name, base, system)}
    assert moved == declared


@pytest.mark.parametrize(
    ("question", "fields", "told"),
    [
        (perfatlas.estimate, {"model": LLAMA}, "device.process has no effect"),
        (perfatlas.kernel_gemm, {"m": 64, "n": 512, "k": 512}, "it applies to chip cost"),
        (perfatlas.kernel_gemm, {"m": 64, "n": 512, "k": 512}, "no prediction uses it"),
        (perfatlas.collective, {"op": "all_reduce", "bytes": 2**20, "gpus": 8}, "device.process"),
    ],
)
def test_overrides_without_effect_are_reported(
    question: Callable[..., Any], fields: dict[str, Any], told: str
) -> None:
    changed = "device.process=3, device.year=2031, device.memory.bandwidth=6TB/s"
    system = f"h200_sxm{{{changed}}}"
    said = [text for text in question(**fields, system=system).warnings if "no effect" in text]
    assert any(told in text for text in said)
    if question is not perfatlas.collective:
        assert not any("bandwidth" in text for text in said)
    assert not any("no effect" in text for text in question(**fields, system="h200_sxm").warnings)


STEP: dict[str, Any] = {"model": LLAMA, "tp": 2, "batch": 64}
UNBOUND = {  # read in the answer: limits that do not bind at its values
    "device.vendor": "rules of engines have no other value for it",
    "device.clock.boost": "the power limit holds the clock lower",
    "device.memory.side_cache": "elementwise operators fit the L2",
    "device.l2_bytes_per_clock": "a bound that measured kernels do not reach",
    "device.scale_up.domain_size": "a plan of two GPUs stays inside",
}


def step(system: str) -> Any:  # noqa: ANN401 - an answer
    return perfatlas.estimate(**STEP, system=system)


@pytest.mark.parametrize("path", [path for path in CHANGED if path not in ELSEWHERE])
def test_an_override_acts_on_an_estimate_or_the_answer_says_why_not(path: str) -> None:
    base, system = bases(path)
    try:
        answer = step(system)
    except PerfatlasError:  # refused, with a reason
        return
    acts = predicted(answer.results) != predicted(step(base).results)
    assert acts or path in UNBOUND or any(path in text for text in answer.warnings)


def test_hops_and_links_of_todays_gpus_act() -> None:
    """A custom all-reduce of one shot has one hop: 4.4 us more than the 0.6 us of NVLink."""

    def reduce_s(overrides: str) -> float:
        system = f"h100_sxm{{{overrides}}}" if overrides else "h100_sxm"
        fields: dict[str, Any] = {"op": "all_reduce", "bytes": 2**14, "gpus": 4}
        return float(
            perfatlas.collective(**fields, system=system, kernel_family="vllm").results["time_s"]
        )

    more_s = reduce_s("device.scale_up.latency=5us") - reduce_s("")
    assert more_s == pytest.approx(4.4e-6)
    links = resolve_system("h100_sxm{device.scale_up.links=9}").device.scale_up
    assert links.bandwidth == pytest.approx(450e9 / 2)
    set_too = "h100_sxm{device.scale_up.links=9, device.scale_up.bandwidth=450GB/s}"
    assert resolve_system(set_too).device.scale_up.bandwidth == 450e9
