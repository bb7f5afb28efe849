from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np

from perfatlas import operators
from perfatlas.hardware import Device, System, system_names
from perfatlas.inference import Evaluation, evaluate
from perfatlas.machines import DeviceColumns
from perfatlas.networks import graph_names, model_names, resolve_model
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import Candidates
from perfatlas.verbs.estimate import estimate_table

# one model per kind of layer: dense GQA, tied, windowed, sinks, experts, latent, sparse, hybrids
MODELS: Final = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-0.6B",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "ai21labs/Jamba-v0.1",
)
ENGINES: Final = ("vllm", "sglang", "trtllm", "ideal")


def column(*values: float) -> operators.FloatArray:
    return np.array(values, dtype=np.float64)


@cache
def distinct_models() -> tuple[str, ...]:
    """Return one catalog id per architecture."""
    found: dict[Any, str] = {}
    for name in sorted({*model_names()} - {*graph_names()}):
        found.setdefault(resolve_model(name).network, name)
    return tuple(found.values())


@cache
def all_systems() -> tuple[str, ...]:
    return tuple(system_names())


def on(device: Device, candidates: int) -> DeviceColumns:
    return DeviceColumns(devices=(device,), index_C=np.zeros(candidates, np.int64))


def answered(
    rows: Sequence[Mapping[str, Any]], **shared: object
) -> dict[str, operators.FloatArray]:
    """Return the numeric result columns of scenarios that must all be answered."""
    columns = table_of(rows, **shared)
    assert columns["error"] == [""] * len(rows)
    return {n: np.array(v) for n, v in columns.items() if not n.startswith("error")}


def table_of(rows: Sequence[Mapping[str, Any]], **shared: object) -> dict[str, list[Any]]:
    names = {name for row in rows for name in row} | set(shared)
    table = {name: [row.get(name, shared.get(name)) for row in rows] for name in names}
    return estimate_table(table).columns


def question_of(**fields: Any) -> Candidates:  # noqa: ANN401 - names of the vocabulary
    question, problems = resolve_scenarios([Scenario.read(fields)])
    assert question is not None, problems
    return question


def evaluated_on(question: Candidates, system: System) -> Evaluation:
    """Return the numbers of a question on a system without a catalog name."""
    return evaluate(replace(question, placement=replace(question.placement, systems=(system,))))


def scaled(system: System, factor: float) -> System:
    """Return a system whose every rate is `factor` times as high; latencies stay."""
    device, node = system.device, system.node
    faster = replace(
        device,
        peak_flop_per_s={name: factor * peak for name, peak in device.peak_flop_per_s.items()},
        peak_clock_hz=factor * device.peak_clock_hz,
        boost_clock_hz=factor * device.boost_clock_hz,
        sustained_clock_hz=factor * device.sustained_clock_hz,
        memory_bandwidth=factor * device.memory_bandwidth,
        scale_up=replace(device.scale_up, bandwidth=factor * device.scale_up.bandwidth),
        host_link_bandwidth=factor * device.host_link_bandwidth,
    )
    return replace(
        system, device=faster, node=replace(node, nic_bandwidth=factor * node.nic_bandwidth)
    )


def free_communication(system: System) -> System:
    device, node = system.device, system.node
    links = replace(device.scale_up, bandwidth=1e30, latency_s=0.0)
    return replace(
        system,
        device=replace(device, scale_up=links, host_link_bandwidth=1e30),
        node=replace(node, nic_bandwidth=1e30),
        fabric=replace(system.fabric, latency_s=0.0),
    )


def gemm(
    m: operators.FloatArray,
    n: operators.FloatArray,
    k: operators.FloatArray,
    format_name: str,
    width: float,
) -> operators.Gemm:
    return operators.Gemm(
        name="gemm",
        phase=operators.Phase.DECODE,
        count=np.ones_like(m),
        m=m,
        n=n,
        k=k,
        format=format_name,
        weight_bytes_per_element=width,
        input_bytes_per_element=width,
    )


def experts(
    tokens: operators.FloatArray,
    sizes: tuple[float, float, float, float],
    ep: float,
    distribution: str,
) -> operators.GroupedGemm:
    """Return experts of (hidden, intermediate, experts, top_k) in bf16."""
    hidden, intermediate, count, top_k = (np.full_like(tokens, size) for size in sizes)
    return operators.GroupedGemm(
        name="experts",
        phase=operators.Phase.DECODE,
        count=np.ones_like(tokens),
        tokens=tokens,
        hidden=hidden,
        intermediate=intermediate,
        experts=count,
        top_k=top_k,
        ep=np.full_like(tokens, ep),
        moe_tp=np.ones_like(tokens),
        matrices=3,
        format="bf16",
        weight_bytes_per_element=2.0,
        input_bytes_per_element=2.0,
        distribution=distribution,
    )


def attention(
    phase: operators.Phase,
    batch: operators.FloatArray,
    q_len: operators.FloatArray,
    kv_len: operators.FloatArray,
    window: float = 0.0,
) -> operators.Attention:
    """Return attention of 32 query and 8 key-value heads of 128."""
    return operators.Attention(
        name="attention",
        phase=phase,
        count=np.ones_like(batch),
        batch=batch,
        q_len=q_len,
        kv_len=kv_len,
        num_heads=np.full_like(batch, 32.0),
        num_kv_heads=np.full_like(batch, 8.0),
        head_dim=np.full_like(batch, 128.0),
        value_head_dim=np.full_like(batch, 128.0),
        window=np.full_like(batch, window),
    )


def latent_attention(
    phase: operators.Phase,
    batch: operators.FloatArray,
    q_len: operators.FloatArray,
    kv_len: operators.FloatArray,
    selected: float = 0.0,
) -> operators.LatentAttention:
    """Return latent attention of 16 heads with the widths of DeepSeek-V3."""
    return operators.LatentAttention(
        name="attention",
        phase=phase,
        count=np.ones_like(batch),
        batch=batch,
        q_len=q_len,
        kv_len=kv_len,
        num_heads=np.full_like(batch, 16.0),
        kv_lora_rank=np.full_like(batch, 512.0),
        rope_dim=np.full_like(batch, 64.0),
        nope_dim=np.full_like(batch, 128.0),
        value_head_dim=np.full_like(batch, 128.0),
        selected=np.full_like(batch, selected),
    )


def streaming(stream: str, tokens: operators.FloatArray, width: float) -> operators.Streaming:
    return operators.Streaming(
        name=stream,
        phase=operators.Phase.DECODE,
        count=np.ones_like(tokens),
        stream=stream,
        tokens=tokens,
        read_bytes=tokens * width,
        write_bytes=tokens * width,
        cold_read_bytes=np.full_like(tokens, width),
    )


def scan(batch: operators.FloatArray, tokens: operators.FloatArray) -> operators.Scan:
    return operators.Scan(
        name="scan",
        phase=operators.Phase.DECODE,
        count=np.ones_like(batch),
        batch=batch,
        tokens=tokens,
        flop_per_token=np.full_like(batch, 1e6),
        io_bytes_per_token=np.full_like(batch, 1e4),
        state_bytes=np.full_like(batch, 1e6),
        num_heads=np.full_like(batch, 64.0),
        head_width=64.0,
        chunk=128.0,
        mixer="mamba2",
    )


def rises_not(values: operators.FloatArray) -> bool:
    return bool((np.diff(values) <= 1e-12 * values[:-1]).all())
