"""The published trace of a pair of DualPipe, and the production run that it is part of.

Shape legend: N layers of a pair, 6 computing and 4 communicating parts of a layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.networks import ModelFormats, resolve_model
from perfatlas.training import COMPUTE_PARTS, pair_times
from perfatlas.training.layouts import Layouts
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import (
    TrainingQuestion,
    pair_of_layers,
    training_steps,
)
from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.training import PairParts
    from perfatlas.training.profiles import TrainingEngine

_ATTENTION: Final = [at for at, name in enumerate(COMPUTE_PARTS) if name.startswith("attention")]
_EXPERTS: Final = [at for at, name in enumerate(COMPUTE_PARTS) if name.startswith("experts")]
_TOKENS: Final = 1e12
_HOUR_S: Final = 3600.0


def published_trace() -> Mapping[str, Any]:
    """Return the trace and the run, from `validation/data/dualpipe_trace.toml`."""
    return read_data("dualpipe_trace.toml")


def fit_to_trace() -> dict[str, float]:
    """Return the efficiencies of the engine with which attention, experts and transfers last.

    Each is the ratio of a predicted sum, beside communication, to that of the trace.

    Example:
        >>> from validation.training.trace import fit_to_trace
        >>> sorted(fit_to_trace())
        ['efficiency_communication', 'efficiency_compute', 'efficiency_experts']
    """
    trace = published_trace()
    engine = replace(
        resolve_training_engine(trace["engine"]),
        efficiency_compute=1.0,
        efficiency_experts=1.0,
        efficiency_communication=1.0,
    )
    measured_s_N6 = np.array(trace["compute_ms"]) / 1e3
    pair = _pair(engine)
    beside_s_N6 = pair.compute_s_CN6[0] / pair.compute_rate_CN6[0]
    compute = beside_s_N6[:, _ATTENTION].sum() / measured_s_N6[:, _ATTENTION].sum()
    # of the experts' parts, the grouped products alone have a factor of their own
    faster = _pair(replace(engine, efficiency_experts=2.0))
    half_s = (beside_s_N6 - faster.compute_s_CN6[0] / faster.compute_rate_CN6[0])[:, _EXPERTS].sum()
    others_s = beside_s_N6[:, _EXPERTS].sum() - 2.0 * half_s
    experts = 2.0 * half_s / (measured_s_N6[:, _EXPERTS].sum() * compute - others_s)
    transfers_s = pair.communication_s_CN4.sum()
    return {
        "efficiency_compute": round(float(compute), 3),
        "efficiency_experts": round(float(experts), 3),
        "efficiency_communication": round(1e3 * float(transfers_s) / trace["communication_ms"], 3),
    }


def _pair(engine: TrainingEngine) -> PairParts:
    """Return the pair of MoE layers of the trace with an engine."""
    question = production_run(engine)
    layers = tuple(group for group in question.network.layers if group.experts is not None)
    network = replace(question.network, layers=layers)
    count = len(published_trace()["compute_ms"])
    return pair_of_layers(replace(question, network=network), count)


def production_run(engine: TrainingEngine) -> TrainingQuestion:
    """Return the production run of the trace's model as a question."""
    trace = published_trace()
    run, name = trace["run"], trace["format"]
    sizes = {
        **dict.fromkeys(("tp", "cp", "expert_tp", "vpp", "micro_batch"), 1),
        **{field: run[field] for field in ("pp", "global_batch", "sequence_length")},
        "dp": run["gpus"] // run["pp"],
        "ep": trace["ep"],
    }
    return TrainingQuestion(
        network=resolve_model(trace["model"]).network,
        engine=engine,
        formats=ModelFormats(gemm=name, moe=name, kv="bf16", attention="bf16"),
        tier="auto",
        systems=(resolve_system(trace["system"]),),
        index_C=np.zeros(1, np.int64),
        layouts=Layouts(
            **{field: np.array([float(value)]) for field, value in sizes.items()},
            zero=np.array([1]),
            sequence_parallel=np.array([False]),
            recompute=np.array([0]),
        ),
        schedule="dualpipe",
        gradient_format=engine.gradient_format,
        distribution="balanced",
    )


def trace_comparison() -> list[dict[str, Any]]:
    """Return the figures of the trace and of the run, published and predicted.

    Returns:
        Rows of `figure`, `published`, `predicted`, `error` and `fitted`: whether an efficiency of
        the engine was set by it.
    """
    trace, run = published_trace(), published_trace()["run"]
    engine = resolve_training_engine(trace["engine"])
    pair = _pair(engine)
    exposed = pair_times(pair)
    transfers_s = float(pair.communication_s_CN4.sum())
    question = production_run(engine)
    steps = training_steps(question)
    gpu_hours = float(steps.step_s_C[0]) * run["gpus"] / _HOUR_S
    tokens = run["global_batch"] * run["sequence_length"]
    beside_s = float((pair.compute_s_CN6 / pair.compute_rate_CN6).sum())
    figures = (
        ("computation of the pair [ms]", float(np.sum(trace["compute_ms"])), 1e3 * beside_s, True),
        ("communication of the pair [ms]", trace["communication_ms"], 1e3 * transfers_s, True),
        ("span of the pair [ms]", trace["span_ms"], 1e3 * float(exposed.total_s_C[0]), False),
        (
            "communication that is hidden",
            trace["hidden"],
            float(exposed.hidden_s_C[0]) / transfers_s,
            False,
        ),
        (
            "GPU-hours per trillion tokens",
            run["gpu_hours_per_trillion_tokens"],
            gpu_hours * _TOKENS / tokens,
            False,
        ),
    )
    return [
        {"figure": name, "published": published, "predicted": found,
         "error": found / published - 1.0, "fitted": fitted}
        for name, published, found, fitted in figures
    ]  # fmt: skip
