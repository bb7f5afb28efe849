"""Quantization: the error of number formats, and what it changes of perplexity and benchmarks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.quantization.change import (
        ACCURACY, DEFAULT_BENCHMARK, DEFAULT_METHOD, FIT_SOURCE, Change, Quantized, benchmark_names,
        change_columns, format_change,
    )
    from perfatlas.quantization.model import (
        EXTRAPOLATED, METHODS, MODEL, PERPLEXITY, TASKS, AccuracyModel, Evaluations, shipped_model,
    )
    from perfatlas.quantization.noise import CLASSES, TABLE, Roundings, stream_noise, tensor_noise
    from perfatlas.quantization.pairs import Pair, asked_of, published_pairs, support
    from perfatlas.quantization.rounding import ROUNDINGS, round_float, shaped_values, sqnr_db
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
