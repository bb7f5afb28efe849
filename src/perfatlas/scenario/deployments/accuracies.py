"""Accuracy of the number formats of deployments.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.accuracy import DEFAULT_METHOD, Quantized, change_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

BILLION: Final = 1e9


def quantized(candidates: Candidates, benchmark: str, method: str | None) -> Quantized:
    """Return the number formats of candidates, their method, benchmark and size.

    Args:
        candidates: Candidates of one model and formats.
        benchmark: Benchmark whose change is asked for.
        method: Quantization method, None for the default.
    """
    formats, network = candidates.formats, candidates.model.network
    return Quantized(
        gemm=formats.gemm,
        moe=formats.moe if network.has_experts else formats.gemm,
        kv=formats.kv,
        method=method or DEFAULT_METHOD,
        benchmark=benchmark,
        parameters_b=network.parameters().total / BILLION,
    )


def accuracy_columns(
    candidates: Candidates, benchmarks: Sequence[str | None], methods: Sequence[str | None]
) -> dict[str, FloatArray]:
    """Return the change of the benchmark of each candidate with its interval, by name (C,).

    Args:
        candidates: Candidates of one model and formats (C).
        benchmarks: Benchmark of each, None where accuracy is not asked for (C).
        methods: Quantization method of each, None for the default (C).

    Returns:
        Points, NaN where declined or not asked for; nothing if none is asked for.
    """
    asked = [at for at, benchmark in enumerate(benchmarks) if benchmark is not None]
    if not asked:
        return {}
    found = change_columns(
        [quantized(candidates, str(benchmarks[at]), methods[at]) for at in asked]
    )
    columns = {name: np.full(len(benchmarks), np.nan) for name in found}
    for name, values in found.items():
        columns[name][asked] = values
    return columns
