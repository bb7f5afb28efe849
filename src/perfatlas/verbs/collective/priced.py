"""Questions about one collective priced in one call, and what each of them is answered."""

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
from perfatlas.scenario.resolution import format_of, kernel_engine
from perfatlas.verbs.collective.question import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.collectives import PricedCollectives
    from perfatlas.hardware import System
    from perfatlas.verbs.collective.question import CollectiveQuestion

RESULTS: Final = (
    *("time_s", "time_s_low", "time_s_high", "bus_bandwidth_bytes_per_s", "algorithm"),
    *("bound", "bound_time_s", "tier"),
)


@dataclass(frozen=True, kw_only=True)
class PricedQuestions:
    """Questions whose words are equal, priced as shapes of one collective.

    Args:
        asked: The questions (U).
        systems: The system of each, its domain cut where nodes are given (U).
        shapes: Sizes and groups (U).
        found: Prices and algorithms (U).
    """

    asked: Sequence[CollectiveQuestion]
    systems: Sequence[System]
    shapes: CollectiveShapes
    found: PricedCollectives

    def results(self) -> list[dict[str, Any]]:
        """Return the results of every question."""
        prices, shapes = self.found.prices, self.shapes
        bandwidth_U = bus_bandwidth(shapes.op, shapes.bytes, shapes.ranks, prices.time_s_CO[:, 0])
        columns = {
            **price_columns(prices),
            "bus_bandwidth_bytes_per_s": bandwidth_U.tolist(),
            "algorithm": self.found.algorithm_U.tolist(),
        }
        rows = zip(*(columns[name] for name in RESULTS), strict=True)
        return [dict(zip(RESULTS, row, strict=True)) for row in rows]


def price_questions(asked: Sequence[CollectiveQuestion]) -> PricedQuestions:
    """Return the prices of questions whose words are equal.

    Args:
        asked: The questions (U).

    Raises:
        InvalidSpecError: No system or engine has that name, or a node is asked for more GPUs than
            a scale-up domain holds.
        UnsupportedError: No such format, or no data for the tier.
    """
    first, named = asked[0], resolve_system(asked[0].system)
    places = list(dict.fromkeys((one.gpus if one.nodes else 0, one.nodes) for one in asked))
    systems = [spread(named, gpus, nodes) for gpus, nodes in places]
    index_U = np.array([places.index((one.gpus if one.nodes else 0, one.nodes)) for one in asked])
    implementation = _implementation(first)
    require_tier(named, first.tier, implementation.family, implementation.silicon_version or None)
    shapes = CollectiveShapes(
        op=first.op,
        bytes=np.array([one.bytes for one in asked], dtype=np.float64),
        ranks=np.array([one.gpus for one in asked], dtype=np.float64),
        stride=np.ones(len(asked)),
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
        asked=asked, systems=[systems[place] for place in index_U], shapes=shapes, found=found
    )


def _implementation(asked: CollectiveQuestion) -> Implementation:
    """Return whose collectives run.

    Raises:
        InvalidSpecError: No engine has that name.
    """
    if asked.kernel_family == LIBRARY_FAMILY:
        return Implementation()
    engine = kernel_engine(asked.kernel_family)
    return Implementation(
        family=engine.kernel_family,
        custom_groups=all_reduce_groups(engine),
        silicon_version=asked.silicon_version or "",
    )
