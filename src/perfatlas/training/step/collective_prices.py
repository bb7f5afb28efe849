"""Times of collectives among groups of ranks, and the bytes that a rank sends.

Shape legend: U groups, V variants (predicted, low, high).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.collectives import CollectiveShapes, price_collectives

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.step.question import TrainingQuestion


class GroupColumns(NamedTuple):
    """Groups of ranks."""

    ranks_U: FloatArray  # Sizes (U,)
    stride_U: FloatArray  # Distances between neighbours in the rank order (U,)
    index_U: IntArray  # Systems (U,)


def collective_times(
    question: TrainingQuestion, op: str, bytes_U: FloatArray, group: GroupColumns
) -> FloatArray:
    """Return the times of a collective, predicted, low and high (V, U) [s]; 0 without bytes.

    Args:
        op: Operation of `collectives`.
        bytes_U: Sizes (U,) [bytes].
        group: The groups (U,).
    """
    return collective_prices(question, op, bytes_U, group)[0]


def collective_prices(
    question: TrainingQuestion, op: str, bytes_U: FloatArray, group: GroupColumns
) -> tuple[FloatArray, FloatArray]:
    """Return the times of a collective (V, U) [s], and the bytes a rank sends (U,) [bytes].

    Args:
        op: Operation of `collectives`.
        bytes_U: Sizes (U,) [bytes].
        group: The groups (U,).
    """
    runs_U = (bytes_U > 0.0) & (group.ranks_U > 1.0)
    priced = price_collectives(
        CollectiveShapes(
            op=op,
            bytes=np.where(runs_U, bytes_U, 1.0),
            ranks=np.where(runs_U, group.ranks_U, 1.0),
            stride=group.stride_U,
        ),
        systems=question.systems,
        system_index_U=group.index_U,
        tier=question.tier,
    ).prices
    times_VU = np.stack([priced.time_s_CO, priced.low_s_CO, priced.high_s_CO])[:, :, 0]
    return np.where(runs_U, times_VU, 0.0), np.where(runs_U, priced.link_bytes_CO[:, 0], 0.0)
