"""Quantization: the error of number formats, and what it changes of perplexity and benchmarks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.quantization.change import (
        ACCURACY, DEFAULT_BENCHMARK, DEFAULT_METHOD, FIT_SOURCE, Change, Pair, Quantized,
        benchmark_names, change_columns, evaluations_of, format_change, published_pairs, support,
    )
    from perfatlas.quantization.model import (
        EXTRAPOLATED, METHODS, MODEL, PERPLEXITY, TASKS, AccuracyModel, Evaluations, shipped_model,
    )
    from perfatlas.quantization.noise import (
        CLASSES, ROUNDINGS, TABLE, Roundings, round_float, shaped_values, sqnr_db, stream_noise,
        tensor_noise,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
