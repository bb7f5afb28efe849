"""Declarations of kernels: the operator they run, their calibrations, shapes and formulas.

Shape legend: C candidates, U unique shapes, D shape columns, S silicon fields, P parameters, B
scratch numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from perfatlas.compiled import compiled, named_row, part
from perfatlas.formats import get_format
from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.operators import FloatArray, Operator, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

Columns = Mapping[str, FloatArray | float]
CalibrationKey = tuple[str, tuple[str, ...]]
Parameters = TypeVar("Parameters", bound=tuple[float, ...])
Decorator = Callable[[Callable[..., tuple[float, int]]], "KernelTime"]

_MEASURED: Final = {
    Phase.PREFILL: "prefill",
    Phase.FORWARD: "prefill",
    Phase.DECODE: "decode",
}


class KernelTime:
    """The time of a kernel: a formula of one shape, called with tables of shapes.

    Args:
        formula: (shape, silicon, parameters) or (shape, silicon, parameters, scratch_B): time of
            one shape [s] and its bound code; a `part`.
        shape: Named tuple of the shape columns.
        parameters: Named tuple of the fitted parameters.
        scratch: Numbers that the formula may overwrite.
    """

    def __init__(
        self,
        formula: Callable[..., tuple[float, int]],
        shape: type[tuple[float, ...]],
        parameters: type[tuple[float, ...]],
        scratch: int = 0,
    ) -> None:
        """Keep the formula; nothing is compiled yet."""
        self.shape, self.parameters = shape, parameters
        self.shape_names: tuple[str, ...] = shape._fields  # type: ignore[attr-defined] # of named tuples
        self.parameter_names: tuple[str, ...] = parameters._fields  # type: ignore[attr-defined] # as above
        self.loop = (_loop_with_scratch if scratch else _loop)(formula, shape, parameters)
        self._scratch = scratch
        update_wrapper(self, formula)

    def __call__(
        self, shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        """Return times (U,) [s] and bound codes (U,).

        Args:
            shape_UD: Columns `shape_names` (U, D).
            silicon_US: Columns of `SiliconRow`, whose peak is that of the product (U, S).
            parameters_UP: Columns `parameter_names` (U, P).
        """
        rows = shape_UD.shape[0]
        time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
        scratch_B = np.empty(self._scratch)
        self.loop(shape_UD, silicon_US, parameters_UP, time_s_U, code_U, scratch_B)
        return time_s_U, code_U


def _loop(
    formula: Callable[..., tuple[float, int]],
    shape: type[tuple[float, ...]],
    parameters: type[tuple[float, ...]],
) -> Callable[..., None]:
    """Return the loop of a formula over the rows of tables."""

    @compiled
    def loop(
        shape_UD: FloatArray,
        silicon_US: FloatArray,
        parameters_UP: FloatArray,
        time_s_U: FloatArray,
        code_U: NDArray[np.int8],
        _scratch_B: FloatArray,
    ) -> None:
        for u in range(shape_UD.shape[0]):
            time_s_U[u], code_U[u] = formula(
                named_row(shape, shape_UD[u]),
                named_row(SiliconRow, silicon_US[u]),
                named_row(parameters, parameters_UP[u]),
            )

    return loop


def _loop_with_scratch(
    formula: Callable[..., tuple[float, int]],
    shape: type[tuple[float, ...]],
    parameters: type[tuple[float, ...]],
) -> Callable[..., None]:
    """Return the loop of a formula that overwrites scratch numbers."""

    @compiled
    def loop(
        shape_UD: FloatArray,
        silicon_US: FloatArray,
        parameters_UP: FloatArray,
        time_s_U: FloatArray,
        code_U: NDArray[np.int8],
        scratch_B: FloatArray,
    ) -> None:
        for u in range(shape_UD.shape[0]):
            time_s_U[u], code_U[u] = formula(
                named_row(shape, shape_UD[u]),
                named_row(SiliconRow, silicon_US[u]),
                named_row(parameters, parameters_UP[u]),
                scratch_B,
            )

    return loop


def kernel_time(
    shape: type[tuple[float, ...]], parameters: type[tuple[float, ...]], scratch: int = 0
) -> Decorator:
    """Return a decorator that makes a formula the time of a kernel, see `KernelTime`."""
    return lambda formula: KernelTime(part(formula), shape, parameters, scratch)


class Axis(NamedTuple):
    """One coordinate of the space of shapes: weight x log2(product of columns / product)."""

    times: tuple[str, ...]
    weight: float = 1.0
    over: tuple[str, ...] = ()
    linear: bool = False


class StandIn(NamedTuple):
    """A measured kernel family that prices an unmeasured operator, and the note about it."""

    family: str  # "" for that of the engine, in another format
    note: str


@dataclass(frozen=True, kw_only=True)
class KernelShape:
    """Properties of the shapes of one calibration operator, beyond its formula."""

    # Coordinates of the space of its shapes; empty where tier measured does not correct it. Weights
    # were chosen on four devices by the error on held-out shapes; columns that are constant in a
    # table keep queries of another geometry away from its rows.
    axes: tuple[Axis, ...] = ()
    # Columns that identify a group of rows that is held out as a whole
    groups: tuple[str, ...] = ()
    split_by: tuple[str, ...] = ()  # Columns that identify the rows that a fit holds out together
    split_words: str  # Description of `split_by`


@dataclass(frozen=True, kw_only=True)
class OperatorKernels:
    """How the kernels in one module price one type of operator.

    The formula of a calibration operator is the `KernelTime` named `<operator>_time_s` there.
    """

    kind: type[Operator]
    # Returns the calibration operator of an operator and the formats whose fits can price it, best
    # first; None where it has no formula
    calibration_key: Callable[[Any], CalibrationKey | None]
    # Returns its shape columns by name. In a step, weights and KV cache come from device memory, so
    # columns that describe a benchmark loop are set to "no loop".
    shape_columns: Callable[[Any], Columns]
    shapes: Mapping[str, KernelShape]  # Its calibration operators
    # Whether it prices this operator, where several modules price one type
    accepts: Callable[[Any], bool] = lambda _: True
    # Returns the kernel family that prices an operator without measurements
    stand_in: Callable[[Any], StandIn | None] = lambda _: None
    # Returns the ending of the families whose kernels run only some of its shapes, and where (C,)
    apart: Callable[[Any], tuple[str, NDArray[np.bool_]] | None] = lambda _: None


def named(operator: Operator, names: tuple[str, ...]) -> dict[str, FloatArray | float]:
    """Return the named fields of an operator."""
    return {name: getattr(operator, name) for name in names}


def is_fp8(format_name: str) -> bool:
    """Return whether products in a format run on fp8 tensor cores."""
    return get_format(format_name).tensor_peak == "fp8"


def kernel_phase(phase: Phase) -> str | None:
    """Return the phase whose measured kernels run an operator, None if there are none.

    The forward pass of training runs prefill kernels; gradients have kernels of their own.
    """
    return _MEASURED.get(phase)


# Static and dynamic scales use the same GEMM kernel; fp16 runs as bf16.
SAME_KERNEL: Final = {"fp8_static": "fp8_dynamic", "fp16": "bf16"}
# Formats without rows of their own, and those whose kernels stand for them: Marlin reads both, and
# only the expansion of a weight differs. On 1,640 rows of Marlin experts with mxfp4
# weights on H100, H200 and L40S (vLLM and SGLang) the fits of int4_wo have median errors of 10 to
# 15%, at other model sizes than they were fitted to. Products of fp8 with a scale for a block run
# on Blackwell as those of mxfp8: DeepGEMM (README) packs its scales as UE8M0 for the block-scaled
# instruction of SM100; Hopper scales both outside of the tensor cores.
SUBSTITUTES: Final = {
    "mxfp8": ("fp8_block",),
    "int4_fp8": ("mxfp4_mxfp8", "fp8_block"),
    **dict.fromkeys(
        ("nvfp4_wo", "nf4_wo", "int2_wo", "int3_wo", "q2_k", "q3_k", "iq4_xs", "q4_0", "q4_k"),
        ("int4_wo",),
    ),
    **dict.fromkeys(("fp8_wo", "mxfp6_wo", "q5_0", "q5_k", "q6_k", "q8_0"), ("int8_wo",)),
}


def fitted_formats(format_name: str) -> tuple[str, ...]:
    """Return the formats whose fits can price a matrix product, best first."""
    return SAME_KERNEL.get(format_name, format_name), *SUBSTITUTES.get(format_name, ())
