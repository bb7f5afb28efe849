"""Grouping of rows into candidates that share model, engine, formats and tier.

Shape legend: N rows, C rows of one group, U distinct rows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.engines import resolve_engine
from perfatlas.networks import ModelFormats, is_graph, resolve_model
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields import distinct_rows
from perfatlas.scenario.resolution import model_formats

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from perfatlas.operators import IntArray
    from perfatlas.scenario.fields import Columns, FieldColumn

SHARED_FIELDS: Final = (
    "model",
    "engine",
    "tier",
    "silicon_version",
    "expert_distribution",
    "redundant_experts",
    "expert_loads",
    "eplb_step_interval",
    "images",
    "image_height",
    "image_width",
    "expert_exchange",
    "batch_overlap",
    "sampling_penalties",
    "mixed_chunk",
    "speculative_depth",
    "speculative_acceptance",
    "acceptance_by_position",
)


class ResolvedFormats(NamedTuple):
    """Number formats of rows: distinct formats and an index per row."""

    # Distinct formats, or the error that prevents them
    found: tuple[ModelFormats | PerfatlasError, ...]
    # Origin of the formats, for each distinct combination of names
    assumptions: tuple[tuple[str, ...], ...]
    codes_N: IntArray  # Index of each row in `found` (N,)
    names_N: IntArray  # Index of each row in `assumptions` (N,)

    def at(self, row: int) -> tuple[ModelFormats | PerfatlasError, tuple[str, ...]]:
        """Return the formats of one row, or its error, and their origin."""
        return self.found[self.codes_N[row]], self.assumptions[self.names_N[row]]


def network_codes(column: FieldColumn) -> IntArray:
    """Return codes (N,) that are equal for equal models, and for graphs that differ in sizes."""
    first: dict[Hashable, int] = {}
    codes_V = np.zeros(len(column.values), np.int64)
    for code in dict.fromkeys(column.codes_N.tolist()):
        text = key = column.values[code]
        if is_graph(text):
            with suppress(PerfatlasError):  # whose row is refused
                key = resolve_model(text).network.size_group
        codes_V[code] = first.setdefault(key, len(first))
    return codes_V[column.codes_N]


def formats_of_rows(columns: Columns) -> ResolvedFormats:
    """Return the number formats of every row; distinct names are resolved once.

    Rows share a format if it resolves to the same one: unset, named bf16, or the engine's choice
    on different devices.

    Args:
        columns: The fields (N).
    """
    supports = [
        model_formats.format_support(system) if system else None
        for system in columns["system"].values
    ]
    device_N = _positions(supports)[columns["system"].codes_N]
    named = [columns[name] for name in ("model", "engine", *model_formats.FormatNames._fields)]
    distinct = distinct_rows([*(column.value_codes for column in named), device_N])
    results = [
        _resolved(named, supports[columns["system"].codes_N[row]], row)
        for row in distinct.first_U.tolist()
    ]
    index: dict[ModelFormats | PerfatlasError, int] = {}
    codes_U = np.array([index.setdefault(found, len(index)) for found, _ in results], np.int64)
    return ResolvedFormats(
        found=tuple(index),
        assumptions=tuple(notes for _, notes in results),
        codes_N=codes_U[distinct.codes_N],
        names_N=distinct.codes_N,
    )


def _positions(values: Sequence[object]) -> IntArray:
    """Return for each value the index of its first occurrence."""
    first: dict[object, int] = {}
    return np.array([first.setdefault(value, len(first)) for value in values], np.int64)


def _resolved(
    named: Sequence[FieldColumn], device: model_formats.FormatSupport | None, row: int
) -> tuple[ModelFormats | PerfatlasError, tuple[str, ...]]:
    """Return the formats of one row and their origin, or its error."""
    model, engine, *names = (column.values[column.codes_N[row]] for column in named)
    try:
        network = resolve_model(model).network
        return model_formats.resolve_formats(
            model_formats.FormatNames(*names), network, resolve_engine(engine), device
        )
    except PerfatlasError as error:
        return error, ()
