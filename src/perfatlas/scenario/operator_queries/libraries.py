"""Queries for operators of analytics and scientific computing that libraries run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from perfatlas import answer
from perfatlas.measurements.calibrations import EXTRAPOLATED
from perfatlas.operators import LibraryKernel, library_kernel, with_fields
from perfatlas.quantities import InfeasibleError, Rule, UnsupportedError
from perfatlas.scenario.fields import InputFields, number_columns
from perfatlas.scenario.resolution import half_format
from perfatlas.vocabulary.fields import (
    ClockChoice,
    FftShape,
    FilterShape,
    GridShape,
    GroupByShape,
    HistogramShape,
    JoinShape,
    PowerLimit,
    SolveShape,
    SortShape,
    SpmvShape,
    StencilShape,
    SystemChoice,
    TierChoice,
    ValueShape,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.hardware import Device
    from perfatlas.pricing import PricedOperators
    from perfatlas.quantities import PerfatlasError
    from perfatlas.scenario.fields import Columns


class LibraryInputs(InputFields, PowerLimit, ClockChoice, TierChoice, SystemChoice):
    """One call of a library on one device, at its tier and clock."""

    kernel_family: ClassVar[None] = None  # of no engine
    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: c.equals("tier", "measured"),
            "tier = measured: there are no measured tables of library calls",
            "set tier = physics",
            UnsupportedError,
        ),
    )


class SortInputs(LibraryInputs, SortShape):
    """A sort on one device."""


class ValueInputs(LibraryInputs, ValueShape):
    """A scan or a reduction on one device."""


class HistogramInputs(LibraryInputs, HistogramShape, ValueShape):
    """A histogram on one device."""


class FilterInputs(LibraryInputs, FilterShape, ValueShape):
    """A filter on one device."""


class JoinInputs(LibraryInputs, JoinShape):
    """A hash join on one device."""


class GroupByInputs(LibraryInputs, GroupByShape):
    """A hash aggregation on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        *LibraryInputs.rules,
        Rule(
            lambda c: c.numbers("groups") > c.numbers("rows"),
            "groups = {groups} exceeds rows = {rows}",
        ),
    )


class SpmvInputs(LibraryInputs, SpmvShape):
    """A sparse matrix-vector product on one device."""

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        *LibraryInputs.rules,
        Rule(
            lambda c: ~c.is_set("columns") & (c.numbers("nonzeros") > c.numbers("rows") ** 2),
            "nonzeros = {nonzeros} exceeds the elements of the matrix: rows = columns = {rows}",
        ),
        Rule(
            lambda c: (
                c.is_set("columns")
                & (c.numbers("nonzeros") > c.numbers("rows") * c.numbers("columns"))
            ),
            "nonzeros = {nonzeros} exceeds the elements of the matrix: rows = {rows}, columns ="
            " {columns}",
        ),
    )


class StencilInputs(LibraryInputs, StencilShape, GridShape):
    """A stencil on one device."""


class FftInputs(LibraryInputs, FftShape, GridShape):
    """Fourier transforms on one device."""


class SolveInputs(LibraryInputs, SolveShape):
    """Factorizations on one device."""


class LibraryQuery(NamedTuple):
    """Fields of a query, those that are columns of its operator, and its choices by name."""

    schema: type[LibraryInputs]
    sizes: tuple[str, ...]
    choices: tuple[str, ...] = ()


_GRID: Final = ("width", "height", "depth")
LIBRARIES: Final[Mapping[str, LibraryQuery]] = {
    "sort": LibraryQuery(SortInputs, ("rows", "key_bytes", "value_bytes"), ("algorithm",)),
    "scan": LibraryQuery(ValueInputs, ("rows", "value_bytes")),
    "reduce": LibraryQuery(ValueInputs, ("rows", "value_bytes")),
    "histogram": LibraryQuery(HistogramInputs, ("rows", "value_bytes", "bins")),
    "filter": LibraryQuery(FilterInputs, ("rows", "value_bytes", "selectivity")),
    "join": LibraryQuery(JoinInputs, ("rows", "build_rows", "key_bytes", "selectivity")),
    "group_by": LibraryQuery(GroupByInputs, ("rows", "groups", "key_bytes", "value_bytes")),
    "spmv": LibraryQuery(SpmvInputs, ("rows", "columns", "nonzeros"), ("pattern", "format")),
    "stencil": LibraryQuery(StencilInputs, (*_GRID, "radius"), ("format",)),
    "fft": LibraryQuery(FftInputs, (*_GRID, "batch"), ("signal", "format")),
    "solve": LibraryQuery(
        SolveInputs, ("n", "batch", "right_hand_sides"), ("factorization", "format")
    ),
}


def library_columns(name: str, inputs: Sequence[LibraryInputs]) -> LibraryKernel:
    """Return calls of a library that differ in sizes alone as an operator over candidates.

    Args:
        name: A key of `LIBRARIES`.
        inputs: The queries (C).
    """
    query = LIBRARIES[name]
    size = number_columns(inputs, query.sizes)
    if "columns" in size:
        size["columns"] = np.where(np.isnan(size["columns"]), size["rows"], size["columns"])
    choice = {key: str(getattr(inputs[0], key)) for key in query.choices}
    return library_kernel(name, size, choice, plain_format=half_format(inputs[0].system))


def widened(prices: PricedOperators, operator: LibraryKernel) -> PricedOperators:
    """Return prices with wider intervals for calls outside the published ones."""
    matches = [prices.matches[m] if m >= 0 else None for m in prices.match_CO[:, 0].tolist()]
    outside_C = [
        match is not None and bool(answer.extrapolated_note(operator, match, c))
        for c, match in enumerate(matches)
    ]
    factor_CO = np.where(outside_C, EXTRAPOLATED, 1.0)[:, None]
    low_s_CO = np.minimum(prices.low_s_CO, prices.time_s_CO / factor_CO)
    return with_fields(
        prices,
        low_s_CO=np.maximum(low_s_CO, prices.bound_s_CO),
        high_s_CO=np.maximum(prices.high_s_CO, prices.time_s_CO * factor_CO),
    )


def too_large(operator: LibraryKernel, device: Device) -> dict[int, PerfatlasError]:
    """Return why calls are refused whose inputs and outputs exceed the memory, by their index."""
    return {
        int(c): InfeasibleError(
            f"{operator.name}: inputs and outputs of {operator.cold_bytes[c] / 1e9:,.1f} GB exceed"
            f" the memory of {device.name}, {device.memory_bytes / 1e9:,.1f} GB"
        )
        for c in np.flatnonzero(operator.cold_bytes > device.memory_bytes)
    }
