"""Numbers at which a monotone condition changes, by bracketing and bisection."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Meets = Callable[[int], bool]
    Pair = tuple[int, int]

T = TypeVar("T", int, float)


def bisected(
    meets: Callable[[T], bool],
    met: T,
    missed: T,
    middle: Callable[[T, T], T],
    is_close: Callable[[T, T], bool],
) -> tuple[T, T]:
    """Return close values of which the first meets a condition and the second misses it.

    Args:
        missed: One above or below it that does not.

    Example:
        >>> from perfatlas.studies.bisection import bisected
        >>> def mean(met, missed): return (met + missed) / 2.0
        >>> bisected(lambda x: x * x < 2.0, 1.0, 2.0, mean, lambda x, y: y - x < 0.1)
        (1.375, 1.4375)
    """
    while not is_close(met, missed):
        between = middle(met, missed)
        met, missed = (between, missed) if meets(between) else (met, between)
    return met, missed


def smallest_number(meets: Meets, first: int, most: int) -> int | None:
    """Return the smallest of some numbers that meets a condition, None if none does.

    The condition stays met with larger numbers. Numbers are tried in steps that double; the last
    step is bisected.

    Example:
        >>> from perfatlas.studies import smallest_number
        >>> smallest_number(lambda number: number * number >= 50, 1, 100)
        8
    """
    met, missed, step = first, first - 1, 1
    while not meets(met):
        if met >= most:
            return None
        missed, met, step = met, min(met + step, most), 2 * step
    return _last_step(meets, met, missed)


def _last_step(meets: Meets, met: int, missed: int) -> int:
    """Return the smallest number above one that misses a condition that meets it."""
    return bisected(
        meets, met, missed, lambda high, low: (high + low) // 2, lambda high, low: high - low <= 1
    )[0]


def cheapest_pair(
    meets: Callable[[Pair], bool], first: Sequence[int], most: Sequence[int], costs: Sequence[int]
) -> Pair | None:
    """Return the pair of numbers of least cost that meets a condition, None if none does.

    The condition stays met with more of either: a pair that misses it rules out all pairs with no
    more of both, and a pair that meets it all that cost as much or more.

    Example:
        >>> from perfatlas.studies import cheapest_pair
        >>> cheapest_pair(lambda pair: pair[0] * pair[1] >= 12, (1, 1), (20, 20), (4, 1))
        (2, 6)
    """
    missed: list[Pair] = []

    def met(pair: Pair) -> bool:
        if any(pair[0] <= failed[0] and pair[1] <= failed[1] for failed in missed):
            return False
        if meets(pair):
            return True
        missed.append(pair)
        return False

    best, factor = (first[0], first[1]), 1
    while not met(best):
        if best == most:
            return None
        factor *= 2
        best = (min(factor * first[0], most[0]), min(factor * first[1], most[1]))
    least = _last_step(lambda number: met((number, best[1])), best[0], first[0] - 1)
    best = (least, _last_step(_second_of(met, least), best[1], first[1] - 1))
    for number in range(first[0], most[0] + 1):
        remaining = costs[0] * best[0] + costs[1] * best[1] - 1 - costs[0] * number
        other = min(remaining // costs[1], most[1])
        if other < first[1]:
            break
        if met((number, other)):
            best = (number, _last_step(_second_of(met, number), other, first[1] - 1))
    return best


def _second_of(meets: Callable[[Pair], bool], first: int) -> Meets:
    """Return whether a number meets a condition as the second of a pair."""
    return lambda second: meets((first, second))
