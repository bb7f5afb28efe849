"""Prices of the collectives of steps.

Shape legend: C candidates, O collectives, R rows (one collective of one candidate), U unique
shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.collectives import CollectiveShapes, Implementation, price_collectives
from perfatlas.engines import all_reduce_groups
from perfatlas.operators import unique_rows
from perfatlas.pricing import PricedOperators, scatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import Collective
    from perfatlas.step.context import StepContext


def price_links(links: Sequence[Collective], context: StepContext) -> PricedOperators:
    """Return the prices of collectives; each distinct shape of an operation is priced once.

    Args:
        links: Collectives of all steps (O).
    """
    placement = context.placement
    by_op: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        by_op.setdefault(link.op, []).append(index)
    pieces = []
    for op, places in by_op.items():
        same = [links[index] for index in places]
        which_R, candidate_R = np.nonzero(np.stack([link.count for link in same]) > 0)
        if not which_R.size:
            continue
        at_R = (which_R, candidate_R)
        key_RD = np.empty((which_R.size, 4))
        for column, name in enumerate(("bytes", "ranks", "stride")):
            key_RD[:, column] = np.stack([getattr(link, name) for link in same])[at_R]
        key_RD[:, 3] = placement.index_C[candidate_R]
        first_U, inverse_R = unique_rows(key_RD)
        bytes_U, ranks_U, stride_U, index_U = key_RD[first_U].T.copy()
        priced = price_collectives(
            CollectiveShapes(op=op, bytes=bytes_U, ranks=ranks_U, stride=stride_U),
            systems=placement.systems,
            system_index_U=index_U.astype(np.int64),
            tier=context.tier,
            implementation=_implementation(context),
        )
        places_R = (candidate_R, np.array(places)[which_R])
        pieces.append((places_R, inverse_R, priced.prices))
    return scatter(PricedOperators, (placement.index_C.size, len(links)), pieces)


def _implementation(context: StepContext) -> Implementation:
    """Return the collective implementation of the engine."""
    return Implementation(
        family=context.profile.kernel_family,
        custom_groups=all_reduce_groups(context.profile),
        pcie_groups=all_reduce_groups(context.profile, pcie=True),
        silicon_version=context.silicon_version,
    )
