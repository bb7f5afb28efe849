"""Registry of the declarations in the folders of `gpu`: from operators to physics models.

Every folder with a module `shape` is found; there is no other list.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

import perfatlas.machines.gpu as home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.machines.gpu.declarations import (
        CalibrationKey,
        Columns,
        KernelShape,
        OperatorKernels,
        StandIn,
    )
    from perfatlas.operators import FloatArray, Operator

    Physics = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, NDArray[np.int8]]]


@dataclass(frozen=True, kw_only=True)
class PhysicsModel:
    """A physics model: its compiled function, shape columns and parameters."""

    physics: Physics
    shape_names: tuple[str, ...]
    parameter_names: tuple[str, ...]


class _Found(NamedTuple):
    """Declarations by operator type, and folder and shapes of each calibration operator."""

    by_kind: Mapping[type[Operator], list[OperatorKernels]]
    folders: Mapping[str, str]
    shapes: Mapping[str, KernelShape]


@cache
def _found() -> _Found:
    """Return the declarations of all folders."""
    by_kind: dict[type[Operator], list[OperatorKernels]] = {}
    folders: dict[str, str] = {}
    shapes: dict[str, KernelShape] = {}
    for module in iter_modules(home.__path__):
        place = f"{home.__name__}.{module.name}.shape"
        if not module.ispkg or find_spec(place) is None:
            continue
        declarations: tuple[OperatorKernels, ...] = import_module(place).DECLARATIONS
        for declaration in declarations:
            by_kind.setdefault(declaration.kind, []).append(declaration)
            folders |= dict.fromkeys(declaration.shapes, module.name)
            shapes |= declaration.shapes
    return _Found(by_kind, folders, shapes)


def kernel_shapes() -> Mapping[str, KernelShape]:
    """Return the shape properties of all calibration operators."""
    return _found().shapes


@cache
def physics_model(calibration_operator: str) -> PhysicsModel:
    """Return the physics model of a calibration operator; compiled code loads on first use."""
    folder = _found().folders[calibration_operator]
    module = import_module(f"{home.__name__}.{folder}.physics")
    stem = calibration_operator.upper()
    return PhysicsModel(
        physics=getattr(module, f"{calibration_operator}_time_s"),
        shape_names=getattr(module, f"{stem}_SHAPE"),
        parameter_names=getattr(module, f"{stem}_PARAMETERS"),
    )


def _declared(operator: Operator) -> OperatorKernels | None:
    for operator_kernels in _found().by_kind.get(type(operator), ()):
        if operator_kernels.accepts(operator):
            return operator_kernels
    return None


def calibration_key(operator: Operator) -> CalibrationKey | None:
    """Return the calibration operator and its formats, best first; None without physics.

    Args:
        operator: Columns over candidates.
    """
    declared = _declared(operator)
    return None if declared is None else declared.calibration_key(operator)


def stand_in(operator: Operator) -> StandIn | None:
    """Return the kernel family that prices an operator without measurements, None for others.

    Args:
        operator: Columns over candidates.
    """
    declared = _declared(operator)
    return None if declared is None else declared.stand_in(operator)


def shape_columns(operator: Operator) -> Columns:
    """Return the shape columns of an operator for its physics model, by name.

    Args:
        operator: Columns over candidates, of a type with physics.

    Raises:
        TypeError: No folder prices operators of this type.
    """
    declared = _declared(operator)
    if declared is None:
        raise TypeError(f"no kernel folder prices operators of kind {operator.kind}")
    return declared.shape_columns(operator)
