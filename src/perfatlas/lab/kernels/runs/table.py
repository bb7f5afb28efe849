"""Runs of all kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.lab.kernels.runs.attention import ATTENTION_RUNS
from perfatlas.lab.kernels.runs.communication import COMMUNICATION_RUNS
from perfatlas.lab.kernels.runs.products import PRODUCT_RUNS
from perfatlas.lab.kernels.runs.streaming import STREAMING_RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.kernels.runs.run import Run

_RUNS: Final[Mapping[str, Run]] = (
    STREAMING_RUNS | PRODUCT_RUNS | ATTENTION_RUNS | COMMUNICATION_RUNS
)


def run_of(name: str) -> Run:
    """Return the run of a kernel.

    Args:
        name: As its row of the registry has it.
    """
    return _RUNS[name]
