"""From operators to the formulas of their kernels, and the space in which shapes are compared.

Every module of `kernels` is found; there is no other list.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates, M matches.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from math import prod
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.machines.gpu import kernels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.machines.gpu import declarations
    from perfatlas.operators import FloatArray, IntArray, Operator

NEAR_BALANCED: Final = -0.1  # skew that represents a uniform load: close to balanced, not equal
MIN_RATIO: Final = 2.0**-10  # minimum ratio of two columns in a coordinate
BEYOND_RANGE: Final = "data/beyond_range.toml"
ROUNDING: Final = 1e-6  # octaves


class _Declarations(NamedTuple):
    """Declarations by operator type, and module and shapes of each calibration operator."""

    by_kind: Mapping[type[Operator], list[declarations.OperatorKernels]]
    modules: Mapping[str, str]
    shapes: Mapping[str, declarations.KernelShape]


@cache
def _declarations() -> _Declarations:
    """Return the declarations of all modules of kernels."""
    by_kind: dict[type[Operator], list[declarations.OperatorKernels]] = {}
    modules: dict[str, str] = {}
    shapes: dict[str, declarations.KernelShape] = {}
    for module in iter_modules(kernels.__path__):
        name = f"{kernels.__name__}.{module.name}"
        for declaration in import_module(name).DECLARATIONS:
            by_kind.setdefault(declaration.kind, []).append(declaration)
            modules |= dict.fromkeys(declaration.shapes, name)
            shapes |= declaration.shapes
    return _Declarations(by_kind, modules, shapes)


def kernel_shapes() -> Mapping[str, declarations.KernelShape]:
    """Return the shape properties of all calibration operators."""
    return _declarations().shapes


AXES: Final[Mapping[str, tuple[declarations.Axis, ...]]] = {
    name: shape.axes for name, shape in kernel_shapes().items() if shape.axes
}


@cache
def physics_model(calibration_operator: str) -> declarations.KernelTime:
    """Return the time of the kernels of a calibration operator."""
    module = import_module(_declarations().modules[calibration_operator])
    time_s: declarations.KernelTime = getattr(module, f"{calibration_operator}_time_s")
    return time_s


def _declared(operator: Operator) -> declarations.OperatorKernels | None:
    for operator_kernels in _declarations().by_kind.get(type(operator), ()):
        if operator_kernels.accepts(operator):
            return operator_kernels
    return None


def calibration_key(operator: Operator) -> declarations.CalibrationKey | None:
    """Return the calibration operator and its formats, best first; None without physics."""
    declared = _declared(operator)
    return None if declared is None else declared.calibration_key(operator)


def stand_in(operator: Operator) -> declarations.StandIn | None:
    """Return the kernel family that prices an operator without measurements, None for others."""
    declared = _declared(operator)
    return None if declared is None else declared.stand_in(operator)


def apart(operator: Operator) -> tuple[str, NDArray[np.bool_]] | None:
    """Return the ending of families that run only some of its shapes, and where; None for none."""
    declared = _declared(operator)
    return None if declared is None else declared.apart(operator)


def shape_columns(operator: Operator) -> declarations.Columns:
    """Return the shape columns of an operator for its physics model, by name."""
    declared = _declared(operator)
    if declared is None:
        raise TypeError(f"no kernel prices operators of kind {operator.kind}")
    return declared.shape_columns(operator)


def _ratios(
    operator: str, shape_UD: FloatArray, *, linear: bool = False
) -> Iterator[tuple[declarations.Axis, FloatArray]]:
    """Yield each axis with its product of columns over others (U,), 0 of no window as the minimum.

    `linear` includes the axes that are no ratios.
    """
    axes = AXES.get(operator, ())
    if not axes:
        return
    column = dict(zip(physics_model(operator).shape_names, shape_UD.T, strict=True))
    for axis in axes:
        if axis.linear and not linear:
            continue
        ratio_U = prod(column[name] for name in axis.times)
        for name in axis.over:
            ratio_U = ratio_U / column[name]
        least = NEAR_BALANCED if axis.linear else MIN_RATIO if axis.over else 1.0
        yield axis, np.maximum(ratio_U, least)


def coordinates(operator: str, shape_UD: FloatArray) -> FloatArray:
    """Return the coordinates of shapes (U, F)."""
    return np.stack(
        [
            axis.weight * (ratio_U if axis.linear else np.log2(ratio_U))
            for axis, ratio_U in _ratios(operator, shape_UD, linear=True)
        ],
        axis=1,
    )


@cache
def widening_per_octave() -> dict[str, float]:
    """Return the widening of intervals per octave outside the range [e-folds], by operator.

    Source: fits without the outer two octaves of one dimension at a time, scored on the rows left
        out; `validation.transfers.range_extrapolation`.
    """
    rows = shipped_table(BEYOND_RANGE)["beyond"]
    return {row["operator"]: float(row["per_octave"]) for row in rows}


def shape_limits(operator: str, shape_RD: FloatArray) -> tuple[dict[str, float], dict[str, float]]:
    """Return the minimum and maximum of each dimension of measured shapes, by name."""
    values = {_label(axis): value_R for axis, value_R in _ratios(operator, shape_RD)}
    least = {name: float(value_R.min()) for name, value_R in values.items()}
    most = {name: float(value_R.max()) for name, value_R in values.items()}
    return least, most


def octaves_outside(
    operator: str,
    shape_UD: FloatArray,
    match_U: IntArray,
    limits_M: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> FloatArray:
    """Return the octaves between a shape and the range its calibration was fitted on (U,).

    Uses the dimension farthest outside. 0 inside, and for calibrations without limits.

    Example:
        >>> import numpy as np
        >>> from perfatlas.machines.gpu.kernels.gemm import GemmShape
        >>> from perfatlas.machines.gpu.shapes import octaves_outside
        >>> shape = np.array([GemmShape(65536.0, 4096.0, 4096.0, *np.zeros(10))])
        >>> limits = [({"m": 1.0}, {"m": 32768.0})]
        >>> float(octaves_outside("gemm", shape, np.zeros(1, np.int64), limits)[0])
        1.0
    """
    farthest_U = np.ones(shape_UD.shape[0])
    if not any(least or most for least, most in limits_M):
        return np.zeros(shape_UD.shape[0])
    for axis, value_U in _ratios(operator, shape_UD):
        name = _label(axis)
        low_M = np.array([least.get(name, 0.0) for least, _ in limits_M])
        high_M = np.array([most.get(name, np.inf) for _, most in limits_M])
        ratio_U = np.maximum(low_M[match_U] / value_U, value_U / high_M[match_U])
        farthest_U = np.maximum(farthest_U, ratio_U)
    outside_U = np.log2(farthest_U)
    return np.where(outside_U > ROUNDING, outside_U, 0.0)


@cache
def _label(axis: declarations.Axis) -> str:
    return "_".join(axis.times) + "".join(f"_per_{name}" for name in axis.over)
