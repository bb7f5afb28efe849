"""What `shape.py` of an operator's folder declares; `kernels.shapes` finds it there.

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
    """One coordinate of the space in which shapes are near: weight x log2(product / product)."""

    times: tuple[str, ...]
    weight: float = 1.0
    over: tuple[str, ...] = ()
    linear: bool = False


class StandIn(NamedTuple):
    """Measured kernels that price an operator nobody measured: whose, and what is said of it."""

    family: str
    note: str


@dataclass(frozen=True, kw_only=True)
class KernelShape:
    """What is known of the shapes of one calibration operator beside its physics.

    Args:
        axes: The space in which its shapes are near each other; empty where tier measured does
            not correct it. Weights were chosen on four devices by the error on shapes left out;
            what a table holds constant keeps a query of another geometry away from its rows.
        groups: Columns that name a group of rows no part of which a held-out row may see.
        split_by: Columns that name the rows a fit holds out together.
        split_words: The same in words.
    """

    axes: tuple[Axis, ...] = ()
    groups: tuple[str, ...] = ()
    split_by: tuple[str, ...] = ()
    split_words: str


def always(_: Operator) -> bool:
    """Return True: a folder prices every operator of its kind."""
    return True


def none_lent(_: Operator) -> StandIn | None:
    """Return None: the kernels of the operator itself were measured."""
    return None


@dataclass(frozen=True, kw_only=True)
class OperatorKernels:
    """How the kernels in one folder price one kind of operator.

    Physics of a calibration operator is `<operator>_time_s` of `physics.py` in the same folder,
    with the columns `<OPERATOR>_SHAPE` and the parameters `<OPERATOR>_PARAMETERS`.

    Args:
        kind: The columns it prices.
        calibration_key: Returns the calibration operator of an operator and the formats it may be
            fitted in, best first; None where it has no physics.
        shape_columns: Returns its shape columns by name. A step runs cold: weights and cache come
            from device memory, so the columns that describe a benchmark loop are those of no loop
            at all.
        shapes: Its calibration operators.
        accepts: Whether it prices this one, where several folders price a kind.
        stand_in: Returns whose measured kernels price an operator where nobody measured its own.
    """

    kind: type[Operator]
    calibration_key: Callable[[Any], CalibrationKey | None]
    shape_columns: Callable[[Any], Columns]
    shapes: Mapping[str, KernelShape]
    accepts: Callable[[Any], bool] = always
    stand_in: Callable[[Any], StandIn | None] = none_lent
