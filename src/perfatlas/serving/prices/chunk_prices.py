"""What the chunks of prompts take apart from the linear layers of their step.

Shape legend: N quantities, Q borders of chunk length, P borders of keys before a chunk, X and Y
sizes tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.serving.prices.grids import Sizes, needed_sizes, sizes_up_to, spaced_sizes
from perfatlas.serving.prices.tables import quantity_ticks

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.serving.prices.parts import StepParts
    from perfatlas.serving.prices.tables import Ticks

WIDEST_CELL: Final = 65_536  # keys: longer ones leave 64 bits when a time is read inside
TOLERANCE: Final = 0.02  # of a chunk's time, where a line between borders may miss it
PARTS: Final = 64  # sizes tried of an octave
KEY_STEP: Final = 64  # keys of a block of the kernels
PROBES: Final = 10  # lengths and contexts at which the borders of the other are placed


class ChunkPrices(NamedTuple):
    """Attention, and what else chunks run apart, of steps that hold one chunk or several.

    A step takes start + sum over chunks added + max over chunks last. One chunk alone leaves SMs
    idle while its longest tiles end; among others only the last to end does.

    Args:
        queries_Q: Borders of chunk length (Q,) [tokens], rising from 0.
        before_P: Borders of keys before a chunk (P,) [tokens], rising from 0.
        start_N: What the shortest chunk takes (N,) [ticks].
        added_NQP: What it adds among as many like it as the step holds (N, Q, P) [ticks].
        last_NQP: What it takes beyond start and that, alone in its step (N, Q, P) [ticks]; below 0
            where it has less of a start than the shortest chunk.
    """

    queries_Q: Sizes
    before_P: Sizes
    start_N: Ticks
    added_NQP: Ticks
    last_NQP: Ticks


def chunk_prices(parts: StepParts, most: int, longest: int) -> ChunkPrices:
    """Return what chunks take, bilinear between borders that lie where their times need them.

    Args:
        parts: Parts of the steps of one candidate.
        most: Tokens of a step at most.
        longest: Keys of the longest sequence.

    Limits: chunks that share a step are priced among others of their own length and context.
    """
    queries = sizes_up_to(most, least_step=1, parts=PARTS)
    before = np.append(0, sizes_up_to(longest, least_step=KEY_STEP, parts=PARTS))
    few = np.append(0, spaced_sizes(longest, PROBES))
    tried_XY = np.hstack([each_NXY[0] for each_NXY in _grid(parts, queries, few, most)])
    queries = needed_sizes(queries, tried_XY, TOLERANCE)
    probes = _grid(parts, spaced_sizes(most, PROBES), before, most)
    tried_XY = np.vstack([each_NXY[0] for each_NXY in probes])
    before = needed_sizes(before, tried_XY.T, TOLERANCE)
    before = np.union1d(before, np.arange(WIDEST_CELL, longest, WIDEST_CELL))
    alone_NQP, added_NQP = _grid(parts, queries, before, most)
    start_N = alone_NQP[:, 0, 0]
    # no queries cost nothing; but to end last has no length
    none_N1P = np.zeros((start_N.size, 1, before.size))
    beyond_NQP = alone_NQP - start_N[:, None, None]
    last_NQP = beyond_NQP - added_NQP
    return ChunkPrices(
        queries_Q=np.append(0, queries),
        before_P=before,
        start_N=quantity_ticks(start_N, parts.quantities),
        added_NQP=quantity_ticks(np.hstack((none_N1P, added_NQP)), parts.quantities),
        last_NQP=quantity_ticks(np.hstack((last_NQP[:, :1], last_NQP)), parts.quantities),
    )


def _grid(
    parts: StepParts, queries_X: Sizes, before_Y: Sizes, most: int
) -> tuple[FloatArray, FloatArray]:
    """Return what a chunk takes alone, and among as many as fit `most` tokens, (N, X, Y) each."""
    queries_XY, before_XY = np.meshgrid(queries_X, before_Y, indexing="ij")
    queries_R = queries_XY.ravel().astype(np.float64)
    before_R = before_XY.ravel().astype(np.float64)
    alike_R = np.maximum(most // queries_R, 1.0)
    alone_NR = parts.chunk(np.ones_like(queries_R), queries_R, before_R)
    added_NR = parts.chunk(alike_R, queries_R, before_R) / alike_R
    shape = (alone_NR.shape[0], *queries_XY.shape)
    return alone_NR.reshape(shape), added_NR.reshape(shape)
