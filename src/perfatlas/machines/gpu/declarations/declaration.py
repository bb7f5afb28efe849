"""Declarations in the `shape.py` of each operator folder; `kernels.shapes` collects them.

Shape legend: C candidates, D shape columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from perfatlas.operators import FloatArray, Operator

Columns = Mapping[str, FloatArray | float]
CalibrationKey = tuple[str, tuple[str, ...]]


class Axis(NamedTuple):
    """One coordinate of the space of shapes: weight x log2(product of columns / product)."""

    times: tuple[str, ...]
    weight: float = 1.0
    over: tuple[str, ...] = ()
    linear: bool = False


class StandIn(NamedTuple):
    """A measured kernel family that prices an unmeasured operator, and the note about it."""

    family: str
    note: str


@dataclass(frozen=True, kw_only=True)
class KernelShape:
    """Properties of the shapes of one calibration operator, beyond its physics."""

    # Coordinates of the space of its shapes; empty where tier measured does not correct it. Weights
    # were chosen on four devices by the error on held-out shapes; columns that are constant in a
    # table keep queries of another geometry away from its rows.
    axes: tuple[Axis, ...] = ()
    # Columns that identify a group of rows that is held out as a whole
    groups: tuple[str, ...] = ()
    split_by: tuple[str, ...] = ()  # Columns that identify the rows that a fit holds out together
    split_words: str  # Description of `split_by`


def always(_: Operator) -> bool:
    """Return True: the folder prices all operators of its type."""
    return True


def no_stand_in(_: Operator) -> StandIn | None:
    """Return None: the operator's own kernels were measured."""
    return None


@dataclass(frozen=True, kw_only=True)
class OperatorKernels:
    """How the kernels in one folder price one type of operator.

    The physics of a calibration operator is `<operator>_time_s` in `physics.py` of the same
    folder, with the columns `<OPERATOR>_SHAPE` and the parameters `<OPERATOR>_PARAMETERS`.
    """

    kind: type[Operator]
    # Returns the calibration operator of an operator and the formats whose fits can price it, best
    # first; None where it has no physics
    calibration_key: Callable[[Any], CalibrationKey | None]
    # Returns its shape columns by name. In a step, weights and KV cache come from device memory, so
    # columns that describe a benchmark loop are set to "no loop".
    shape_columns: Callable[[Any], Columns]
    shapes: Mapping[str, KernelShape]  # Its calibration operators
    # Whether it prices this operator, where several folders price one type
    accepts: Callable[[Any], bool] = always
    # Returns the kernel family that prices an operator without measurements
    stand_in: Callable[[Any], StandIn | None] = no_stand_in
