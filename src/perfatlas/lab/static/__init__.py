"""Kernels inspected without running them: resources, instructions, occupancy."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.static.inspection import TRITON, Compilation, Inspection, inspect
    from perfatlas.lab.static.occupancy import MAX_THREADS, limits_of, plain_target
    from perfatlas.lab.static.reproducer import write_reproducer
    from perfatlas.lab.static.tools import run_tool
    from perfatlas.lab.static.triton_source import TritonRequest, compile_triton
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
