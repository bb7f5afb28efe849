"""Accuracy of the number formats of deployments.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import quantization
from perfatlas.networks import resolve_model
from perfatlas.quantities import UnsupportedError
from perfatlas.scenario.resolution import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

BILLION: Final = 1e9
HALF: Final = "bf16"


def quantized(candidates: Candidates, benchmark: str, method: str | None) -> quantization.Quantized:
    """Return the number formats of candidates, their method, benchmark and size.

    Args:
        candidates: Candidates of one model and formats.
        benchmark: Benchmark whose change is asked for.
        method: Quantization method, None for the default.
    """
    formats, network = candidates.formats, candidates.model.network
    return quantization.Quantized(
        gemm=formats.gemm,
        moe=formats.moe if network.has_experts else formats.gemm,
        kv=formats.kv,
        method=method or quantization.DEFAULT_METHOD,
        benchmark=benchmark,
        parameters_b=network.parameters().total / BILLION,
    )


def accuracy_columns(
    candidates: Candidates, benchmarks: Sequence[str | None], methods: Sequence[str | None]
) -> dict[str, FloatArray]:
    """Return the change of the benchmark of each candidate with its interval, by name (C,).

    Args:
        candidates: Candidates of one model and formats (C).
        benchmarks: Benchmark of each, None where none is set (C).
        methods: Quantization method of each, None for the default (C).

    Returns:
        Points, NaN where declined or not asked for; nothing if none is asked for.
    """
    pairs = list(zip(benchmarks, methods, strict=True))
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[0] is not None]
    if not distinct:
        return {}
    places = {pair: at for at, pair in enumerate(distinct)}
    found = quantization.change_columns(
        [quantized(candidates, str(name), by) for name, by in distinct]
    )
    index_C = [places.get(pair, -1) for pair in pairs]  # the last value is that of none
    return {name: np.append(values, np.nan)[index_C] for name, values in found.items()}


class QuantizedModel(NamedTuple):
    """A model with its number formats and what they change."""

    asked: quantization.Quantized  # Formats, method, benchmark and size
    change: quantization.Change  # Change of the benchmark and of perplexity
    layers: int  # Layers of the network
    assumptions: tuple[str, ...]  # Where its formats come from


def quantized_model(
    model: str, formats: tuple[str | None, str | None], method: str, benchmark: str
) -> QuantizedModel:
    """Return a model in number formats, without a system or an engine.

    Args:
        model: As the field.
        formats: Of matrix products and of the KV cache, None for those of the checkpoint.
        benchmark: Benchmark whose change is asked for.

    Raises:
        InvalidSpecError: There is no such model or benchmark.
        UnsupportedError: There is no such format, or that of the checkpoint is not read.
    """
    network = resolve_model(model).network
    if network.item:
        raise UnsupportedError(
            f"{model} is a graph of operators: changes of accuracy are predicted of language models"
            " alone"
        )
    checkpoint = network.checkpoint
    for field, given in zip(("gemm_format", "kv_format"), formats, strict=True):
        if given is None:
            checkpoint.refuse_unread(field)
    gemm = format_of(formats[0] or checkpoint.gemm_format or HALF).name
    experts = None if formats[0] else checkpoint.moe_format
    asked = quantization.Quantized(
        gemm=gemm,
        moe=format_of(experts).name if experts else gemm,
        kv=format_of(formats[1] or checkpoint.kv_format or HALF).name,
        method=method,
        benchmark=benchmark,
        parameters_b=network.parameters().total / BILLION,
    )
    own = formats[0] is None and checkpoint.gemm_format is not None
    notes = (f"formats of the checkpoint: {checkpoint.source}",) if own else ()
    layers = sum(segment.count for segment in network.layers)
    return QuantizedModel(asked, quantization.format_change(asked), layers, notes)


def accuracy_results(found: QuantizedModel) -> dict[str, Any]:
    """Return the results of `accuracy` by name; None for what is declined or has no noise."""
    change = found.change
    values = dict(
        zip(quantization.ACCURACY, (change.delta[1], change.delta[0], change.delta[2]), strict=True)
    )
    ends = zip(("_low", "", "_high"), change.ratio, strict=True)
    values |= {f"perplexity_ratio{end}": value for end, value in ends}
    results: dict[str, Any] = {n: None if math.isnan(v) else v for n, v in values.items()}
    total = quantization.stream_noise(sum(change.noise), found.layers)
    for name, noise in zip((*quantization.CLASSES, "stream"), (*change.noise, total), strict=True):
        results[f"{name}_sqnr_db"] = -10.0 * math.log10(noise) if noise else None
    side = "loss" if change.delta[1] < 0.0 else "gain"
    known = change.standing != "declined"
    results["repeated_spread"] = change.repeated
    results["difference"] = ("none" if change.is_none else side) if known else None
    return {**results, "standing": change.standing}
