"""Kernels inspected without running them: resources, instructions, occupancy."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.static.inspection import (
        SOURCES, TRITON, Compilation, Inspection, disassembled, inspect,
    )
    from perfatlas.lab.static.kernel import Instructions, Kernel
    from perfatlas.lab.static.occupancy import MAX_THREADS, limits_of, plain_target
    from perfatlas.lab.static.reproducer import write_reproducer
    from perfatlas.lab.static.tools import run_tool
    from perfatlas.lab.static.triton_source import TritonRequest, compile_triton
    from perfatlas.lab.static.work import mma_shape
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
