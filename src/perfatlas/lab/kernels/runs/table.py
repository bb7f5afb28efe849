"""Runs of all kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.registry import lab_kernel
from perfatlas.lab.kernels.runs.attention import ATTENTION_RUNS
from perfatlas.lab.kernels.runs.communication import COMMUNICATION_RUNS
from perfatlas.lab.kernels.runs.products import PRODUCT_RUNS
from perfatlas.lab.kernels.runs.streaming import STREAMING_RUNS
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.kernels.runs.run import KernelRun, Launch

_RUNS: Final[Mapping[str, KernelRun]] = (
    STREAMING_RUNS | PRODUCT_RUNS | ATTENTION_RUNS | COMMUNICATION_RUNS
)


def run_of(name: str) -> KernelRun:
    """Return the run of a kernel.

    Args:
        name: As its row of the registry has it.
    """
    return _RUNS[name]


def prepared(name: str, shape: Mapping[str, Any], number_format: str, target: str) -> Launch:
    """Return a launch of a kernel on random data of a GPU.

    Args:
        name: Its name in the registry.
        target: Compiler's name of the GPU, such as sm_90.

    Raises:
        UnsupportedError: The registry has no tile for the GPU, or Triton refuses to compile it.
    """
    import triton

    row = lab_kernel(name)
    if target not in row.configs:
        raise UnsupportedError(
            f"kernel {name} has no tile for {target}; it has them for {', '.join(row.configs)}"
        )
    run = run_of(row.run)
    launch, _ = run.launch(run.inputs(shape, number_format, "cuda"), row.configs[target])
    try:
        launch()
    except triton.TritonError as problem:
        reason = str(problem).rstrip().rpartition("\n")[2]
        raise UnsupportedError(
            f"kernel {name} is not compiled for {target} by Triton {triton.__version__}: {reason}"
        ) from problem
    return launch
