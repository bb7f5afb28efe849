"""Prompts of attention-data-parallel ranks in a step, which all of them run together.

Requests reach every rank, so that prompts of some ranks meet decodes of the others. A step takes
the time of its busiest rank: what it computes is an order statistic of the ranks.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

NEGLIGIBLE: Final = 1e-9  # probability of more prompts at which sums over their number end
TINY: Final = float(np.finfo(np.float64).tiny)  # keeps 0 over 0 at 0


class RankPrompts(NamedTuple):
    """Prompts of a step in which any rank computes some.

    Args:
        most: Prompts of the busiest rank, at least 1, or 1 where they take several steps (C,).
        ranks: Prompts of all ranks over those of the busiest, from 1 to the number of ranks (C,).
        own: Probability that a given rank computes prompts in such a step (C,).
    """

    most: FloatArray
    ranks: FloatArray
    own: FloatArray


def spread_prompts(
    starting: FloatArray, slots: FloatArray, ranks: FloatArray, *, alternates: bool
) -> RankPrompts:
    """Return the prompts of the steps with prompts, where equal requests are evenly spread.

    Clients whose requests have equal lengths keep their distance: R `starting` prompts start in
    each step, of which each goes to another rank, or one in every few steps. Where a rank computes
    prompts in steps of their own, as many start in each of its decode steps.

    Args:
        starting: As for `rank_prompts` (C,).
        slots: As for `rank_prompts` (C,).
        ranks: Attention-data-parallel ranks (C,).
        alternates: Whether a rank computes either prompts or decodes in a step.

    Source: derived; the phases of clients as in `method simulate`.
    """
    each = starting / (1.0 + np.minimum(starting, 1.0)) if alternates else starting
    most = np.clip(starting, 1.0, np.maximum(slots, 1.0))
    together = np.clip(ranks * each / most, 1.0, ranks)
    return RankPrompts(most, together, together / ranks)


def rank_prompts(
    starting: FloatArray,
    slots: FloatArray,
    ranks: FloatArray,
    *,
    alternates: bool,
) -> RankPrompts:
    """Return the prompts of the steps with prompts, where requests end independently.

    A step of one rank has room for c prompts, or for a part of one (c = 1). Each slot is taken with
    probability `starting` / c: K, the prompts of a rank, is binomial, which is Poisson where c is
    large, and loses none of the work where c is 1. With R ranks the step has prompts with
    probability q = 1 - P(K = 0)^R; its busiest rank then computes the sum over k of
    (1 - P(K <= k)^R) / q prompts, and all ranks together R E[K] / q.

    Where prompts run in steps of their own, a rank prefills after each decode step in which any
    start: in p / (1 + p) of its steps, with p = P(K > 0).

    Args:
        starting: Mean prompts, or steps of prompts, that start on a rank per decode step (C,).
        slots: Prompts that fit into a step beside its decodes, at least 1; rounded down (C,).
        ranks: Attention-data-parallel ranks (C,).
        alternates: Whether a rank computes either prompts or decodes in a step.

    Source: derived; the maximum of R independent values has the distribution function F^R.

    Limits: Ranks are independent, though requests that end together start together, and routing to
        the rank with the fewest requests evens them out.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.rank_prompts import rank_prompts
        >>> one = np.ones(1)
        >>> found = rank_prompts(0.5 * one, one, 2 * one, alternates=False)
        >>> float(found.most[0]), round(float(found.ranks[0]), 4), round(float(found.own[0]), 4)
        (1.0, 1.3333, 0.6667)
    """
    slots = np.floor(np.maximum(slots, 1.0))
    taken = starting / slots
    tails = _tails(np.minimum(taken, 1.0), slots)
    some = tails[0]
    share = 1.0 / (1.0 + np.maximum(some, taken)) if alternates else np.ones_like(taken)
    mean = share * sum(tails)
    highest = sum(1.0 - (1.0 - share * more) ** ranks for more in tails)
    busy = 1.0 - (1.0 - share * some) ** ranks
    known = busy > 0.0
    safe = np.where(known, busy, 1.0)
    most = np.where(known, np.maximum(highest / safe, 1.0), 1.0)
    together = np.where(known, ranks * mean / safe / most, 1.0)
    own = np.where(known, share * some / safe, 1.0)
    return RankPrompts(most, np.clip(together, 1.0, ranks), np.minimum(own, 1.0))


class HeldPrompts(NamedTuple):
    """Prompts that wait for those of other ranks and then run in the same step.

    Args:
        number: Mean prompts of such a step, from 1 to the number of ranks (C,).
        wait_steps: Mean steps that each of them waits (C,).
    """

    number: FloatArray
    wait_steps: FloatArray


def held_prompts(
    rate: FloatArray, iters: FloatArray, ranks: FloatArray, held: FloatArray
) -> HeldPrompts:
    """Return the prompts of a step, where they wait until every rank has one, and their wait.

    Prompts arrive at random. A step runs them when there is one for each of R ranks, when T steps
    have passed since the last step with prompts, or when one comes to a rank that decodes nothing,
    as all but a share h do; where none has come after T steps, the next one runs at once. With
    N arrivals in T steps, k prompts wait for h^k P(N > k) / rate steps of a cycle, so that the
    mean number is n = P(N = 0) + sum over k < R of h^k P(N > k), and by renewal the mean wait is
    (sum over k < R of k h^k P(N > k)) / (n rate).

    Args:
        rate: Prompts of all ranks per decode step (C,).
        iters: Maximum steps from one step with prompts to the next, T (C,).
        ranks: Attention-data-parallel ranks, R (C,).
        held: Share of prompts that come to a rank which decodes other requests, h (C,).

    Source: derived; the rule is that of `serving.engine.rank_balance`.

    Limits: Each prompt is for a rank without one, as the router prefers ranks with few requests;
        where several come to one rank before all have one, the wait is longer. Equal requests of
        a closed loop that once start together end together, and wait less.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.rank_prompts import held_prompts
        >>> one = np.ones(1)
        >>> rare = held_prompts(0.05 * one, 60 * one, 16 * one, one)  # about half of 60 steps
        >>> round(float(rare.number[0]), 2), round(float(rare.wait_steps[0]), 1)
        (3.05, 29.5)
        >>> often = held_prompts(2.0 * one, 60 * one, 16 * one, one)  # 0 to 15 steps of half a one
        >>> float(often.number[0]), float(often.wait_steps[0])
        (16.0, 3.75)
    """
    mean = rate * iters
    log_mean = np.log(np.maximum(mean, TINY))
    log_chance, still = -mean, np.ones_like(mean)
    none = np.exp(log_chance)
    more = 1.0 - none
    number, waiting = none.copy(), np.zeros_like(mean)
    for k in range(int(ranks.max(initial=0.0))):
        counted = np.where(k < ranks, still * np.maximum(more, 0.0), 0.0)
        number += counted
        waiting += k * counted
        still = still * held
        log_chance = log_chance + log_mean - np.log(k + 1.0)
        more = more - np.exp(np.minimum(log_chance, 0.0))
    return HeldPrompts(number, waiting / np.maximum(rate, TINY) / number)


def _tails(taken: FloatArray, slots: FloatArray) -> list[FloatArray]:
    """Return P(K > k) of a binomial number of slots for k = 0, 1, ... until all are negligible.

    Args:
        taken: Probability that a slot is taken (C,).
        slots: Number of slots, whole (C,).
    """
    full = taken >= 1.0
    free = np.where(full, 1.0, 1.0 - taken)
    odds = np.log(np.maximum(taken, TINY)) - np.log(free)
    log_chance = slots * np.log(free)
    more = 1.0 - np.exp(log_chance)
    tails: list[FloatArray] = []
    while not tails or np.any(tails[-1] > NEGLIGIBLE):
        k = float(len(tails))
        tails.append(np.where(k < slots, np.where(full, 1.0, np.maximum(more, 0.0)), 0.0))
        log_chance = log_chance + np.log(np.maximum(slots - k, TINY) / (k + 1.0)) + odds
        more = more - np.exp(np.minimum(log_chance, 0.0))
    return tails
