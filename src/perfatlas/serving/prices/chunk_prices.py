"""Price tables of prompt chunks: operators outside the shared linear layers.

Shape legend: N quantities, Q breakpoints of chunk length, P breakpoints of keys before a chunk,
X and Y candidate sizes.
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

WIDEST_CELL: Final = 65_536  # keys: interpolation in wider cells overflows 64 bits
# time of a chunk times the width of its cell [ticks x tokens] that interpolation can hold
MAX_PRODUCT: Final = 5e17
TOLERANCE: Final = 0.02  # relative error of interpolated chunk times
PARTS: Final = 64  # candidate sizes per octave
KEY_STEP: Final = 64  # keys per block of the kernels
PROBES: Final = 10  # lengths (contexts) used to place the breakpoints of contexts (lengths)


class ChunkPrices(NamedTuple):
    """Time of attention and other separate operators of the chunks of a step.

    A step takes start + sum over chunks of added + max over chunks of last. A single chunk leaves
    SMs idle while its longest tiles finish; among several, only the last one does.
    """

    queries_Q: Sizes  # Breakpoints of chunk length (Q,) [tokens], ascending from 0
    before_P: Sizes  # Breakpoints of keys before a chunk (P,) [tokens], ascending from 0
    start_N: Ticks  # Cost of the shortest chunk (N,) [ticks]
    added_NQP: Ticks  # Marginal cost in a step full of equal chunks (N, Q, P) [ticks]
    # Further cost if alone in its step (N, Q, P) [ticks]; negative if its fixed cost is lower than
    # that of the shortest chunk
    last_NQP: Ticks


def chunk_prices(parts: StepParts, most: int, longest: int) -> ChunkPrices:
    """Return the costs of chunks, bilinear between adaptive breakpoints.

    Limits: Chunks that share a step are priced as if all had equal length and context.
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
    alone_NQP, added_NQP = _grid(parts, queries, before, most, longest)
    # the event loop interpolates time in integers: widest cell of the longest chunk [tokens]
    ticks = abs(float(quantity_ticks(alone_NQP[:1].max(axis=(1, 2)), parts.quantities[:1])[0]))
    width = max(int(min(MAX_PRODUCT / max(ticks, 1.0), WIDEST_CELL)), 1)
    if width < WIDEST_CELL:
        queries = np.union1d(queries, np.arange(width, most, width))
        before = np.union1d(before, np.arange(width, longest, width))
        alone_NQP, added_NQP = _grid(parts, queries, before, most, longest)
    start_N = alone_NQP[:, 0, 0]
    # no queries cost nothing, except for `last`, which does not depend on the length
    none_N1P = np.zeros((start_N.size, 1, before.size))
    beyond_NQP = np.where(alone_NQP > 0, alone_NQP - start_N[:, None, None], 0)
    last_NQP = beyond_NQP - added_NQP
    return ChunkPrices(
        queries_Q=np.append(0, queries),
        before_P=before,
        start_N=quantity_ticks(start_N, parts.quantities),
        added_NQP=quantity_ticks(np.hstack((none_N1P, added_NQP)), parts.quantities),
        last_NQP=quantity_ticks(np.hstack((last_NQP[:, :1], last_NQP)), parts.quantities),
    )


def _grid(
    parts: StepParts, queries_X: Sizes, before_Y: Sizes, most: int, longest: float = np.inf
) -> tuple[FloatArray, FloatArray]:
    """Return the cost of a chunk alone, and in a step full of equal ones, (N, X, Y) each.

    Corners of cells in which no chunk ends within the longest context are 0.
    """
    shape = (queries_X.size, before_Y.size)
    begin_X, begin_Y = (np.append(0, sizes[:-1]) for sizes in (queries_X, before_Y))
    read_R = np.flatnonzero(begin_X[:, None] + begin_Y <= longest)
    x_R, y_R = np.unravel_index(read_R, shape)
    queries_R, before_R = queries_X[x_R].astype(np.float64), before_Y[y_R].astype(np.float64)
    alike_R = np.maximum(most // queries_R, 1.0)
    several_W = np.flatnonzero(alike_R > 1.0)  # where the chunk is not the only one in both
    chunks_R = np.append(np.ones_like(queries_R), alike_R[several_W])
    place_R = np.append(np.arange(queries_R.size), several_W)
    cost_NR = parts.chunk(chunks_R, queries_R[place_R], before_R[place_R])
    alone_NR, several_NW = np.split(cost_NR, [queries_R.size], axis=1)
    added_NR = alone_NR.copy()
    added_NR[:, several_W] = several_NW / alike_R[several_W]
    alone_NXY, added_NXY = (np.zeros((alone_NR.shape[0], *shape)) for _ in range(2))
    alone_NXY[:, x_R, y_R], added_NXY[:, x_R, y_R] = alone_NR, added_NR
    return alone_NXY, added_NXY
