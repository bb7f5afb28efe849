"""Bandwidth-limited operators: calibration and shape columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.declarations import KernelShape, OperatorKernels
from perfatlas.operators import Streaming

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns


def _key(_: Streaming) -> CalibrationKey:
    return "streaming", ("bf16",)


def _columns(operator: Streaming) -> Columns:
    return {
        "bytes": operator.read_bytes + operator.write_bytes + operator.cold_read_bytes,
        "cold_bytes": operator.cold_read_bytes,
        "tokens": operator.tokens,
    }


DECLARATIONS: Final = (
    OperatorKernels(
        kind=Streaming,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={"streaming": KernelShape(split_words="row length")},
    ),
)
