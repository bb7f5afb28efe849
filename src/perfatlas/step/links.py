"""Prices of the collectives of steps.

Shape legend: C candidates, O collectives, R priced rows (one collective of one candidate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.collectives import CollectiveShapes, Implementation, price_collectives
from perfatlas.engines import all_reduce_groups
from perfatlas.pricing import PricedOperators, scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import Collective
    from perfatlas.step.context import StepContext


def price_links(links: Sequence[Collective], context: StepContext) -> PricedOperators:
    """Return the prices of collectives; those of one operation are priced together.

    Args:
        links: Collectives of all steps (O).
        context: Engine, systems and tier.
    """
    placement = context.placement
    by_op: dict[str, list[int]] = {}
    for place, link in enumerate(links):
        by_op.setdefault(link.op, []).append(place)
    pieces = []
    for op, places in by_op.items():
        same = [links[place] for place in places]
        which_R, candidate_R = np.nonzero(np.stack([link.count for link in same]) > 0)
        if not which_R.size:
            continue
        at_R = (which_R, candidate_R)
        priced = price_collectives(
            CollectiveShapes(
                op=op,
                bytes=np.stack([link.bytes for link in same])[at_R],
                ranks=np.stack([link.ranks for link in same])[at_R],
                stride=np.stack([link.stride for link in same])[at_R],
            ),
            systems=placement.systems,
            system_index_U=placement.index_C[candidate_R],
            tier=context.tier,
            implementation=_implementation(context),
        )
        pieces.append(((candidate_R, np.array(places)[which_R]), priced.prices))
    return scatter(PricedOperators, (placement.index_C.size, len(links)), pieces)


def _implementation(context: StepContext) -> Implementation:
    """Return the collective implementation of the engine."""
    return Implementation(
        family=context.profile.kernel_family,
        custom_groups=all_reduce_groups(context.profile),
        silicon_version=context.silicon_version,
    )
