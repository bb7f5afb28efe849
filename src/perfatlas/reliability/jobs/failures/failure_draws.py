"""Failure times of the parts of a cause, in their service time.

Shape legend: X failures, P parts, B blocks: nodes, or groups of nodes that fail together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, two_digits
from perfatlas.reliability.fleet.laws import Exponential, mean_s, residual, sample_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws import Law
    from perfatlas.reliability.fleet.model import Cause, Lemons

    Float = NDArray[np.float64]
    Ints = NDArray[np.int64]

MOST_FAILURES: Final = 10_000_000
EXACT: Final = 1e-9  # relative rounding error of a number of parts
LEMONS: Final = 104_729  # separate from the seeds of lifetimes


def failure_times(
    cause: Cause, parts: float, blocks: int, horizon_s: float, *, seed: int
) -> tuple[Float, Ints]:
    """Return the failure times of parts [s] (X,) and their blocks (X,), unsorted.

    A fractional part has that fraction of the failure rate. Lemons are whole blocks whose parts
    share its rate; they are drawn at random, the same ones for every horizon. Where their share is
    not a whole number of blocks, one more block is a partial lemon: its rate is raised by that
    fraction.

    Args:
        cause: Cause of failure.
        parts: Number of parts, may be fractional.
        blocks: Number of blocks over which they are distributed in order.
        horizon_s: Simulated time [s].
        seed: Random seed.

    Raises:
        InvalidSpecError: Too many failures.
    """
    if abs(parts - round(parts)) <= EXACT * max(parts, 1.0):
        parts = float(round(parts))
    whole = max(math.ceil(parts), 1)
    weight_P = np.minimum(parts - np.arange(whole), 1.0)
    at_P = np.arange(whole) * blocks / parts
    block_P = np.minimum((at_P + EXACT).astype(np.int64), blocks - 1)
    extra = cause.lemons.share * (cause.lemons.factor - 1.0) if cause.lemons else 0.0
    expected = whole * (1.0 + extra) * horizon_s / mean_s(cause.lifetime)
    if expected > MOST_FAILURES:
        raise InvalidSpecError(
            f"cause {cause.name!r} fails about {two_digits(expected)} times in {horizon_s:g} s:"
            f" expected at most {MOST_FAILURES:,}"
        )
    first = residual(cause.lifetime) if cause.ages == "mixed" else cause.lifetime
    times, where = [np.zeros(0)], [np.zeros(0, np.int64)]
    for turn, at_s, alive in _turns((first, cause.lifetime), np.ones(whole), horizon_s, seed):
        kept = np.ones(alive.size, bool)
        if alive.size and alive[-1] == whole - 1 and weight_P[-1] < 1.0:
            kept[-1] = np.random.default_rng((seed, turn)).random() < weight_P[-1]
        times.append(at_s[kept])
        where.append(block_P[alive[kept]])
    time_s_X, block_X = np.concatenate(times), np.concatenate(where)
    if cause.lemons is None:
        return time_s_X, block_X
    size_B = np.bincount(block_P, weight_P, minlength=blocks).astype(np.float64)
    rate_B = lemon_parts(size_B, cause.lemons, seed) / mean_s(cause.lifetime)
    return _with_lemons((time_s_X, block_X), rate_B, cause.lemons.strikes, (horizon_s, seed))


def lemon_parts(size_B: Float, lemons: Lemons, seed: int) -> Float:
    """Return the extra failure rate of each block in units of one normal part (B,).

    Args:
        size_B: Parts of each block (B,).
        lemons: Their share and factor.
        seed: Random seed of the choice of blocks.

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.fleet.model import Lemons
        >>> from perfatlas.reliability.jobs.failures.failure_draws import lemon_parts
        >>> found = lemon_parts(np.full(10, 8.0), Lemons(share=0.25, factor=3.0), 0)
        >>> sorted(found.tolist(), reverse=True)[:4]
        [16.0, 16.0, 8.0, 0.0]
    """
    order_B = np.random.default_rng(seed).permutation(size_B.size)
    before_B = np.cumsum(size_B[order_B]) - size_B[order_B]
    bad_B = np.zeros(size_B.size)
    bad_B[order_B] = np.clip(lemons.share * size_B.sum() - before_B, 0.0, size_B[order_B])
    bad_B[bad_B < EXACT * size_B.sum()] = 0.0
    return bad_B * (lemons.factor - 1.0)


def _turns(
    laws: tuple[Law, Law], scale_P: Float, horizon_s: float, seed: int
) -> Iterator[tuple[int, Float, Ints]]:
    """Yield the next failures of all parts within the horizon: round, time [s], part."""
    alive, turn = np.arange(scale_P.size), 0
    at_s_P = sample_s(laws[0], scale_P.size, seed=seed) * scale_P
    while True:
        inside = at_s_P < horizon_s
        at_s_P, alive = at_s_P[inside], alive[inside]
        if not alive.size:
            return
        yield turn, at_s_P, alive
        turn += 1
        # drawn for all parts, so that a longer horizon starts with the same failures
        draws = sample_s(laws[1], scale_P.size, seed=seed + 7_919 * turn) * scale_P
        at_s_P = at_s_P + draws[alive]


def _with_lemons(
    drawn: tuple[Float, Ints], rate_B: Float, strikes: int, until: tuple[float, int]
) -> tuple[Float, Ints]:
    """Return failures including the extra ones of lemons, until they are retired.

    As lifetimes are memoryless, a lemon is a normal block plus a stream at the extra rate.
    """
    bad = np.flatnonzero(rate_B)
    if not bad.size:
        return drawn
    law, (horizon_s, seed) = Exponential(mean_s=1.0), until
    times, where = [drawn[0]], [drawn[1]]
    for _, at_s, alive in _turns((law, law), 1.0 / rate_B[bad], horizon_s, seed + LEMONS):
        times.append(at_s)
        where.append(bad[alive])
    time_s_X, block_X = np.concatenate(times), np.concatenate(where)
    if not strikes:
        return time_s_X, block_X
    more_X = np.arange(time_s_X.size) >= drawn[0].size
    order_X = np.lexsort((time_s_X, block_X))
    sorted_X = block_X[order_X]
    begins_X = np.searchsorted(sorted_X, sorted_X)  # of the block in that order
    late_X = np.zeros(time_s_X.size, bool)
    late_X[order_X] = np.arange(sorted_X.size) - begins_X >= strikes
    kept_X = ~(more_X & late_X)
    return time_s_X[kept_X], block_X[kept_X]
