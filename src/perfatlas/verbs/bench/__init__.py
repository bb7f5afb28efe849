"""Benchmarks of this machine."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.bench.answer import bench_compare, bench_device, bench_run
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
