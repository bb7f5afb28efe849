"""Matrix products: calibration, shape columns and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.gpu.declarations import (
    Axis,
    KernelShape,
    OperatorKernels,
    fitted_formats,
    named,
)
from perfatlas.operators import Gemm

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations import CalibrationKey, Columns


def _key(operator: Gemm) -> CalibrationKey:
    """Return the calibration key; static quantization is a separate streaming pass, like a norm."""
    return "gemm", fitted_formats(operator.format)


def _columns(operator: Gemm) -> Columns:
    sizes = ("m", "n", "k", "groups", "tile_rows", "tile_columns", "uneven_groups")
    bytes_per_element = tuple(f"{of}_bytes_per_element" for of in ("weight", "input", "output"))
    return named(operator, sizes + bytes_per_element) | {
        "quantize": operator.quantizes_input,
        "copies": 0.0,
        "shared_activation": 0.0,
    }


DECLARATIONS: Final = (
    OperatorKernels(
        kind=Gemm,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "gemm": KernelShape(
                axes=(Axis(("m",), 2.0), Axis(("n",)), Axis(("k",), 0.5)),
                groups=("n", "k"),
                split_by=("n", "k"),
                split_words="(n, k)",
            )
        },
    ),
)
