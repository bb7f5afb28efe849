"""Queries for one collective, priced together, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import price_columns, require_tier
from perfatlas.collectives import (
    LIBRARY_FAMILY,
    CollectiveShapes,
    Implementation,
    bus_bandwidth,
    price_collectives,
)
from perfatlas.engines import all_reduce_groups
from perfatlas.hardware import resolve_system
from perfatlas.scenario.fields import columns_of
from perfatlas.scenario.resolution import format_of, kernel_engine
from perfatlas.verbs.collective.question import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.collectives import PricedCollectives
    from perfatlas.hardware import System
    from perfatlas.verbs.collective.question import CollectiveInputs

SIZES: Final = ("bytes", "gpus", "nodes")  # fields that are columns here
RESULTS: Final = (
    *("time_s", "time_s_low", "time_s_high", "tabulated_low_s", "tabulated_high_s"),
    *("bus_bandwidth_bytes_per_s", "algorithm", "bound", "bound_time_s", "tier"),
)


@dataclass(frozen=True, kw_only=True)
class PricedQuestions:
    """Queries that differ in `SIZES` alone, priced as shapes of one collective.

    Args:
        inputs: The queries (U).
        systems: The system of each query, with a reduced domain if nodes are given (U).
        shapes: Sizes and groups (U).
        found: Prices and algorithms (U).
    """

    inputs: Sequence[CollectiveInputs]
    systems: Sequence[System]
    shapes: CollectiveShapes
    found: PricedCollectives

    def results(self) -> dict[str, list[Any]]:
        """Return the results of all queries by name, each (U)."""
        prices, shapes = self.found.prices, self.shapes
        bandwidth_U = bus_bandwidth(shapes.op, shapes.bytes, shapes.ranks, prices.time_s_CO[:, 0])
        columns = {
            **price_columns(prices),
            "bus_bandwidth_bytes_per_s": bandwidth_U.tolist(),
            "algorithm": self.found.algorithm_U.tolist(),
        }
        return {name: columns[name] for name in RESULTS}


def price_questions(inputs: Sequence[CollectiveInputs]) -> PricedQuestions:
    """Return the prices of queries that differ in `SIZES` alone.

    Args:
        inputs: The queries (U).

    Raises:
        InvalidSpecError: The system or engine is unknown, or a node would need more GPUs than a
            scale-up domain holds.
        UnsupportedError: The format is unknown, or there is no data for the tier.
    """
    first, named = inputs[0], resolve_system(inputs[0].system)
    places = list(dict.fromkeys((one.gpus if one.nodes else 0, one.nodes) for one in inputs))
    systems = [spread(named, gpus, nodes) for gpus, nodes in places]
    index_U = np.array([places.index((one.gpus if one.nodes else 0, one.nodes)) for one in inputs])
    implementation = _implementation(first)
    require_tier(named, first.tier, implementation.family, implementation.silicon_version or None)
    size = columns_of(inputs, SIZES)
    shapes = CollectiveShapes(
        op=first.op,
        bytes=size["bytes"],
        ranks=size["gpus"],
        stride=np.ones(len(inputs)),
        format_name=format_of(first.format).name,
    )
    found = price_collectives(
        shapes,
        systems=systems,
        system_index_U=index_U,
        tier=first.tier,
        implementation=implementation,
    )
    return PricedQuestions(
        inputs=inputs, systems=[systems[place] for place in index_U], shapes=shapes, found=found
    )


def _implementation(inputs: CollectiveInputs) -> Implementation:
    """Return the collective implementation.

    Raises:
        InvalidSpecError: The engine is unknown.
    """
    if inputs.kernel_family == LIBRARY_FAMILY:
        return Implementation()
    engine = kernel_engine(inputs.kernel_family)
    return Implementation(
        family=engine.kernel_family,
        custom_groups=all_reduce_groups(engine),
        pcie_groups=all_reduce_groups(engine, pcie=True),
        silicon_version=inputs.silicon_version or "",
    )
