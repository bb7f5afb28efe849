"""Result files of serving benchmarks: vLLM, SGLang, TensorRT-LLM and AIPerf."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.benchmarks.results import ReadRun, read_results
    from perfatlas.measurements.benchmarks.run import BenchmarkRun
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
