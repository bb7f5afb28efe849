"""Quantization: the error of number formats, and what it changes of perplexity and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.quantization.change import (
        ACCURACY as ACCURACY,
        DEFAULT_BENCHMARK as DEFAULT_BENCHMARK,
        DEFAULT_METHOD as DEFAULT_METHOD,
        FIT_SOURCE as FIT_SOURCE,
        Change as Change,
        Quantized as Quantized,
        benchmark_names as benchmark_names,
        change_columns as change_columns,
        format_change as format_change,
    )
    from perfatlas.quantization.model import (
        EXTRAPOLATED as EXTRAPOLATED,
        METHODS as METHODS,
        MODEL as MODEL,
        PERPLEXITY as PERPLEXITY,
        TASKS as TASKS,
        AccuracyModel as AccuracyModel,
        Evaluations as Evaluations,
        shipped_model as shipped_model,
    )
    from perfatlas.quantization.noise import (
        CLASSES as CLASSES,
        TABLE as TABLE,
        Roundings as Roundings,
        stream_noise as stream_noise,
        tensor_noise as tensor_noise,
    )
    from perfatlas.quantization.pairs import (
        Pair as Pair,
        asked_of as asked_of,
        published_pairs as published_pairs,
        support as support,
    )
    from perfatlas.quantization.rounding import (
        ROUNDINGS as ROUNDINGS,
        round_float as round_float,
        shaped_values as shaped_values,
        sqnr_db as sqnr_db,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
