"""Records of columns that declare how they combine, and the operations that follow from it.

A record is a frozen dataclass. Its columns have one row per candidate and one column per operator,
or one value per operator. Its parts are tuples, such as the calibrations that a column of positions
indexes. Nothing in this module depends on the name of a column.

Shape legend: C candidates, O operators, R rows (one operator of one candidate), U shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, auto
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance
    from numpy.typing import NDArray

    from perfatlas.operators import IntArray

    Record = TypeVar("Record", bound=DataclassInstance)
    Places = tuple[IntArray, IntArray]
    Values = NDArray[Any]

_COLUMN: Final = "column"
_PART: Final = "part"


class Composition(Enum):
    """How the column of an operator contributes to its step."""

    EXPOSED = auto()  # summed over executions, less the share hidden by overlapped operators: time
    WHOLE = auto()  # summed over executions, hidden or not: work, energy
    COUNT = auto()  # summed over kernels, not over executions: rows that were priced
    EACH = auto()  # never summed: codes, positions, flags


class Quantity(Enum):
    """What a column that is summed over executions is proportional to."""

    WORK = auto()  # arithmetic and bytes, and the roofline time that follows from them
    TIME = auto()  # predicted time
    LOW_TIME = auto()  # lower end of its interval
    HIGH_TIME = auto()  # upper end
    ENERGY = auto()


@dataclass(frozen=True, kw_only=True)
class Column:
    """Declaration of a column."""

    composition: Composition = Composition.EACH  # How it contributes to a step
    # What it is proportional to, if it is summed over executions
    quantity: Quantity = Quantity.WORK
    # Whether it depends on the clock of the device; `EXPOSED` columns always do
    follows_clock: bool = False
    unpriced: float = 0.0  # Value of unpriced entries
    dtype: type[np.generic] = np.float64  # Data type
    # Name of the part that its values index, -1 for none; they are renumbered when records are
    # combined
    positions_in: str = ""
    # One value per operator (O,), else one per candidate and operator (C, O)
    per_operator: bool = False
    ticks_per_unit: int = 0  # Resolution in integer price tables; 0 where it cannot be tabulated
    tabulated: bool = False  # Whether it is part of the price tables of the simulators

    @property
    def is_summed(self) -> bool:
        """Whether it is summed over executions."""
        return self.composition in {Composition.EXPOSED, Composition.WHOLE}

    @property
    def metadata(self) -> Mapping[str, Column]:
        """The declaration as metadata for `dataclasses.field`."""
        return {_COLUMN: self}


@dataclass(frozen=True, kw_only=True)
class Part:
    """Declaration of a part."""

    # Combined records keep each member once; otherwise all of them, in order
    distinct: bool = False

    @property
    def metadata(self) -> Mapping[str, Part]:
        """The declaration as metadata for `dataclasses.field`."""
        return {_PART: self}


@cache
def columns_of(kind: type[DataclassInstance]) -> Mapping[str, Column]:
    """Return the columns of a record type by name."""
    return {
        field.name: field.metadata[_COLUMN] for field in fields(kind) if _COLUMN in field.metadata
    }


@cache
def _parts_of(kind: type[DataclassInstance]) -> Mapping[str, Part]:
    """Return the parts of a record type by name."""
    return {field.name: field.metadata[_PART] for field in fields(kind) if _PART in field.metadata}


def unpriced(
    kind: type[Record], shape: tuple[int, int], **columns: Values | tuple[Any, ...]
) -> Record:
    """Return a record in which nothing is priced except the given columns.

    Columns per candidate that are not given take no memory, and cannot be written to.

    Args:
        shape: Candidates and operators.
    """
    missing = {
        name: _constant(shape[1:] if column.per_operator else shape, column)
        for name, column in columns_of(kind).items()
        if name not in columns
    }
    return kind(**missing, **columns)


def _constant(shape: tuple[int, ...], column: Column) -> Values:
    """Return an unpriced column, with one value in memory if it is one per candidate."""
    if column.per_operator:
        return np.full(shape, column.unpriced, column.dtype)
    return np.broadcast_to(np.array(column.unpriced, column.dtype), shape)


def _is_unpriced(values: Values) -> bool:
    """Return whether a column is one that `_constant` made."""
    return values.strides == (0, 0)


def of_one_operator(kind: type[Record], size: int, **columns: Values | tuple[Any, ...]) -> Record:
    """Return the record of one operator at many shapes, each a candidate (U, 1).

    Args:
        **columns: Columns (U,), values per operator (1,), and parts; the others are unpriced.
    """
    fields = columns_of(kind)
    shaped = {
        name: values[:, None]
        if name in fields and not fields[name].per_operator and isinstance(values, np.ndarray)
        else values
        for name, values in columns.items()
    }
    return unpriced(kind, (size, 1), **shaped)


def following_clock(record: DataclassInstance) -> tuple[str, ...]:
    """Return the names of the columns that depend on the clock of the device.

    They are those that declare it, and `EXPOSED` ones, as what is overlapped depends on it.
    """
    return tuple(
        name
        for name, column in columns_of(type(record)).items()
        if column.follows_clock or column.composition is Composition.EXPOSED
    )


def take(record: Record, candidates: IntArray) -> Record:
    """Return a record of the selected candidates, in the given order.

    Args:
        candidates: Positions of the selected ones.
    """
    return with_fields(
        record,
        **{
            name: getattr(record, name)[candidates]
            for name, column in columns_of(type(record)).items()
            if not column.per_operator
        },
    )


def select(record: Record, operators: slice | IntArray) -> Record:
    """Return a record of the selected operators; its parts are kept in full."""
    return with_fields(
        record, **{name: getattr(record, name)[..., operators] for name in columns_of(type(record))}
    )


def join(records: Sequence[Record]) -> Record:
    """Return the concatenated operators of several records of the same candidates."""
    joined = {
        name: _concatenated(_placed(records, name, column))
        for name, column in columns_of(type(records[0])).items()
    }
    return with_fields(records[0], **joined, **_combined_parts(records))


def _concatenated(values: Sequence[Values]) -> Values:
    """Return a column of several records; it is unpriced if it is in all of them."""
    if all(map(_is_unpriced, values)):
        shape = (values[0].shape[0], sum(values.shape[1] for values in values))
        return np.broadcast_to(values[0][:1, :1], shape)
    return np.concatenate(values, axis=-1)


def merge(records: Sequence[Record], positions: Sequence[IntArray]) -> Record:
    """Return a record of all candidates, from records of some of them.

    Counts add up; other values per operator are those of the first record.

    Args:
        records: Records of the same operators.
        positions: Positions of the candidates of each record; together, every candidate once.
    """
    size = sum(rows.size for rows in positions)
    columns: dict[str, Values] = {}
    for name, column in columns_of(type(records[0])).items():
        values = _placed(records, name, column)
        if column.per_operator:
            counted = column.composition is Composition.COUNT
            columns[name] = np.sum(values, axis=0) if counted else values[0]
        elif all(map(_is_unpriced, values)):
            columns[name] = np.broadcast_to(values[0][:1, :1], (size, values[0].shape[1]))
        else:
            into = np.empty((size, values[0].shape[1]), column.dtype)
            for places_X, rows in zip(positions, values, strict=True):
                into[places_X] = rows
            columns[name] = into
    return with_fields(records[0], **columns, **_combined_parts(records))


def choose(records: Sequence[Record], chosen_CO: IntArray) -> Record:
    """Return a record that takes each operator of each candidate from one of several records.

    Values per operator are those of the first record. A part with distinct members omits those of
    records that are never chosen.

    Args:
        records: Records of the same operators and candidates.
        chosen_CO: Position of a record (C, O).
    """
    columns = {
        name: np.take_along_axis(np.stack(_placed(records, name, column)), chosen_CO[None], axis=0)[
            0
        ]
        for name, column in columns_of(type(records[0])).items()
        if not column.per_operator
    }
    used = [bool((chosen_CO == position).any()) for position in range(len(records))]
    return with_fields(records[0], **columns, **_combined_parts(records, used))


def scatter(
    kind: type[Record], shape: tuple[int, int], pieces: Sequence[tuple[Places, IntArray, Record]]
) -> Record:
    """Return a record of all operators, filled from records of single operators.

    Args:
        pieces: Candidate and operator of each row, the shape that it has, a position in a record
            of shapes (R,), and that record (U, 1). Values per operator are those of the record.
    """
    whole = unpriced(kind, shape)
    if not pieces:
        return whole
    flat = [candidate_R * shape[1] + operator_R for (candidate_R, operator_R), _, _ in pieces]
    records = [record for _, _, record in pieces]
    columns: dict[str, Values] = {}
    for name, column in columns_of(kind).items():
        values = _placed(records, name, column)
        if column.per_operator:
            for ((_, operator_R), _, _), rows in zip(pieces, values, strict=True):
                getattr(whole, name)[operator_R] = rows[0]
        elif not all(map(_is_unpriced, values)):
            into = np.full(shape, column.unpriced, column.dtype)
            for at_R, (_, shape_R, _), rows in zip(flat, pieces, values, strict=True):
                into.reshape(-1)[at_R] = rows[:, 0][shape_R]
            columns[name] = into
    return with_fields(whole, **columns, **_combined_parts(records))


def write(record: Record, positions: Places, **rows: Values) -> None:
    """Write rows into the columns of a record in place.

    Args:
        record: A record that is not shared yet.
        positions: Candidate and operator of each row.
        **rows: Values by the name of their column, each (R,).
    """
    flat: dict[int, IntArray] = {}  # one index is faster than two
    for name, values_R in rows.items():
        into = getattr(record, name)
        if not into.flags.c_contiguous:
            into[positions] = values_R
            continue
        width = into.shape[1]
        if width not in flat:
            flat[width] = positions[0] * width + positions[1]
        into.reshape(-1)[flat[width]] = values_R


def _placed(records: Sequence[DataclassInstance], name: str, column: Column) -> list[Values]:
    """Return a column of each record, with positions renumbered for the combined part."""
    values = [getattr(record, name) for record in records]
    if not column.positions_in:
        return values
    sizes = [len(getattr(record, column.positions_in)) for record in records]
    first = accumulate(sizes[:-1], initial=0)
    return [
        np.where(matches >= 0, matches + start, -1) if start else matches
        for matches, start in zip(values, first, strict=True)
    ]


def _combined_parts(
    records: Sequence[DataclassInstance], used: Sequence[bool] = ()
) -> dict[str, tuple[Any, ...]]:
    """Return the parts of several records as one; distinct members are those of records used."""
    parts: dict[str, tuple[Any, ...]] = {}
    for name, part in _parts_of(type(records[0])).items():
        if part.distinct:
            chosen = [r for n, r in enumerate(records) if not used or used[n]]
            parts[name] = tuple(dict.fromkeys(item for r in chosen for item in getattr(r, name)))
        else:
            parts[name] = tuple(item for r in records for item in getattr(r, name))
    return parts
