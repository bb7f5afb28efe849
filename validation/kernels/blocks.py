"""Measured attention blocks of DeepSeek sparse attention compared with their summed operators.

A row of the module tables is the attention of one layer of an engine on one rank: projections,
indexer, selection, attention, output projection, without its all-reduce. No calibration is fitted
to them, so that they test the sum of all priced operators.

Source: ai-dynamo/aiconfigurator, collector/sglang/collect_mla_module.py and those of the other
engines.

Shape legend: C candidates (measured rows), O operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.engines import resolve_engine
from perfatlas.fitting.cells import FAMILIES, MEASURED_DEVICES
from perfatlas.hardware import resolve_system
from perfatlas.machines import price_operators
from perfatlas.measurements.tables import GEMM_FORMATS, SPARSE_FOLDER, has_table, read_table
from perfatlas.networks import LayerGroup, MlaAttention, ModelFormats, StepTokens, resolve_model
from perfatlas.operators import Collective, Phase
from perfatlas.parallelism import PlanColumns
from perfatlas.quantities import UnsupportedError
from perfatlas.sampling import error_statistics, seeded_subset
from perfatlas.step import Placement, StepContext, rank_operators
from validation.kernels.measured import check_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.measurements.tables import SiliconTable
    from perfatlas.operators import FloatArray

TABLES: Final[dict[Phase, str]] = {
    Phase.PREFILL: "dsa_context_module_perf",
    Phase.DECODE: "dsa_generation_module_perf",
}
MODELS: Final = ("deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5", "zai-org/GLM-5-FP8")
CACHES: Final = {"bfloat16": "bf16", "fp8": "fp8_static"}
# Operators of the block, by name prefix.
BLOCK: Final = (
    *("qkv_a_projection", "latent_norm", "q_b_projection", "rope", "latent_cache_append"),
    *("indexer_", "latent_q_absorb", "latent_attention", "latent_v_expand", "output_projection"),
)
FIGURES: Final = ("rows", "mape", "median_error", "p90_error", "bias")
ROWS: Final = 400  # of one kernel, at most
SEED: Final = 20253
# Prefill modules are launched one by one: below this they are host-bound.
MIN_PROMPT_TOKENS: Final = 4096.0
# SGLang's modules with larger batches were not captured in a graph and take a millisecond longer.
MAX_GRAPH: Final = 256.0


class _Blocks(NamedTuple):
    """Priced blocks (C,) [s]."""

    time_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray


def validate_blocks(
    systems: Sequence[str] | None = None, engines: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the errors of whole sparse-attention blocks, device by device and kernel by kernel.

    Args:
        systems: Devices to score; by default all with measured tables.
        engines: Engines to score; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        InvalidSpecError: A device or engine is unknown.

    Limits: prompts of fewer than 4,096 new tokens, SGLang's decode batches above 256 and its dense
        path for prompts no longer than the selection are excluded and counted.
    """
    check_names("system", systems or (), MEASURED_DEVICES)
    check_names("engine", engines or (), FAMILIES)
    scores: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    for system in systems or MEASURED_DEVICES:
        for engine in engines or FAMILIES:
            for phase, name in TABLES.items():
                if not has_table(system, SPARSE_FOLDER, engine, name):
                    continue
                table = read_table(system, SPARSE_FOLDER, engine, name)
                keep, left = _comparable(table, phase)
                about = {"system": system, "engine": engine, "phase": phase}
                skipped += [about | {"why": why, "rows": rows} for why, rows in left.items()]
                scores += _scores(table, phase, keep)
    return {"cells": scores, "skipped": skipped}


def _comparable(table: SiliconTable, phase: Phase) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which rows are compared (R,), and reason -> excluded rows."""
    column = table.columns
    text = {name: column[name].astype(str) for name in ("model", "op_name", "kernel_source")}
    batch, q_len = (np.asarray(column[name], np.float64) for name in ("batch_size", "isl"))
    reasons = {
        "a model that is not in the catalog, or without an indexer": ~np.isin(text["model"], MODELS)
        | (np.char.find(text["op_name"], "skip_indexer") >= 0),
        "the engine's dense path": np.char.find(text["kernel_source"], "dense") >= 0,
    }
    if phase == Phase.PREFILL:
        reasons["launched one by one, few tokens"] = batch * q_len < MIN_PROMPT_TOKENS
    elif table.framework == "sglang":
        reasons["batch above the largest graph"] = batch > MAX_GRAPH
    keep = np.ones(batch.shape, np.bool_)
    left: dict[str, int] = {}
    for why, out in reasons.items():
        left[why] = int(np.sum(keep & out))
        keep &= ~out
    return keep, {why: rows for why, rows in left.items() if rows}


def _scores(table: SiliconTable, phase: Phase, keep: NDArray[np.bool_]) -> Iterator[dict[str, Any]]:
    """Yield the score of every kernel and cache format."""
    names = ("kernel_source", "kv_cache_dtype")
    pairs = np.stack([table.columns[name].astype(str) for name in names], axis=1)
    for kernel, cache in np.unique(pairs[keep], axis=0).tolist():
        rows = np.flatnonzero(keep & np.all(pairs == (kernel, cache), axis=1))
        rows = rows[seeded_subset(rows.size, ROWS, SEED)]
        priced = _priced(table, phase, rows, CACHES[cache])
        measured_s = table.measured_s()[rows]
        errors = error_statistics(priced.time_s, measured_s)
        inside = (priced.low_s <= measured_s) & (measured_s <= priced.high_s)
        yield {
            "system": table.system,
            "engine": table.framework,
            "phase": phase,
            "kernel": kernel,
            "kv_format": CACHES[cache],
            **{name: getattr(errors, name) for name in FIGURES},
            "inside_90": float(np.mean(inside)),
        }


def _priced(table: SiliconTable, phase: Phase, rows: NDArray[np.int64], cache: str) -> _Blocks:
    """Return the summed price of the blocks of some rows."""
    total = _Blocks(*(np.zeros(rows.size) for _ in range(3)))
    names = ("model", "gemm_type")
    pairs = np.stack([table.columns[name][rows].astype(str) for name in names], axis=1)
    for model, word in np.unique(pairs, axis=0).tolist():
        some = np.flatnonzero(np.all(pairs == (model, word), axis=1))
        context, tokens = _question(table, phase, rows[some], (model, GEMM_FORMATS[word], cache))
        operators = [
            operator
            for operator in rank_operators(context, phase, tokens)
            if not isinstance(operator, Collective) and operator.name.startswith(BLOCK)
        ]
        priced = price_operators(
            operators,
            context.placement.devices(),
            family=context.profile.kernel_family,
            tier="physics",
        )
        count_CO = np.stack([operator.count for operator in operators], axis=1)
        for all_C, some_CO in zip(
            total, (priced.time_s_CO, priced.low_s_CO, priced.high_s_CO), strict=True
        ):
            all_C[some] = (some_CO * count_CO).sum(axis=1)
    return total


def _question(
    table: SiliconTable, phase: Phase, rows: NDArray[np.int64], about: tuple[str, str, str]
) -> tuple[StepContext, StepTokens]:
    """Return one layer of a model with the measured heads per rank, and its tokens."""
    model, gemm, cache = about
    batch, q_len, cached, heads = (
        np.asarray(table.columns[name], np.float64)[rows]
        for name in ("batch_size", "isl", "step", "num_heads")
    )
    network = resolve_model(model).network
    layer = replace(network.layers[0], count=1)
    if not (isinstance(layer, LayerGroup) and isinstance(layer.mixer, MlaAttention)):
        raise UnsupportedError(f"{model} has no latent attention: remove it from MODELS")
    column = np.ones(rows.size)
    ranks = layer.mixer.num_heads / heads
    context = StepContext(
        network=replace(network, layers=(layer,)),
        formats=ModelFormats(gemm=gemm, moe=gemm, kv=cache, attention="bf16"),
        profile=resolve_engine(table.framework),
        placement=Placement(
            systems=(resolve_system(table.system),), index_C=np.zeros(rows.size, np.int64)
        ),
        plan=PlanColumns(
            tp=ranks,
            pp=column,
            cp=column,
            attention_dp=column,
            ep=column,
            moe_tp=ranks,
            dp=column,
            ring_degree=column,
            guidance_degree=column,
            dcp=column,
        ),
        tier="physics",
    )
    queries = q_len if phase == Phase.PREFILL else column
    return context, StepTokens(batch=batch, q_len=queries, kv_len=cached + queries)
