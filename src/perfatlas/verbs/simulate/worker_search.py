"""Search for the fewest GPUs of prefill and decode workers that meet the SLOs.

More workers of either pool are taken not to make latencies worse: a pair that misses the SLOs
rules out all pairs with no more workers of both kinds, and a pair that meets them all that need at
least as many GPUs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments import resolve_traffic, service
from perfatlas.serving.config import MAX_SCHEDULERS
from perfatlas.verbs.simulate.judged_sizes import confirmed, judge, refuse_unmeetable

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.verbs.simulate.judged_sizes import Size, SizeSearch

LARGEST: Final = 64  # largest number that is tried / number that the capacity asks for


def fewest_workers(search: SizeSearch) -> Size:
    """Return the numbers of prefill and decode workers that meet the SLOs with the fewest GPUs.

    Args:
        search: The search, updated in place.

    Raises:
        InfeasibleError: No numbers of workers meet them.
        InvalidSpecError: More workers are needed than a simulation supports.
        KeyboardInterrupt: The search was stopped.
    """
    first, most = _limits(search)
    refuse_unmeetable(search)
    gpus = gpus_of_workers(search)
    while True:
        found = fewest_gpus(lambda size: judge(search, size).verdict == "met", first, most, gpus)
        if found is None:
            raise InfeasibleError(
                f"no number of workers up to {search.text(most)} meets the SLOs:"
                f" {search.judged[most].reason}"
            )
        if search.slower or confirmed(search, found):
            return found


def gpus_of_workers(search: SizeSearch) -> Size:
    """Return the GPUs of one prefill and of one decode worker.

    Args:
        search: The search.
    """
    resolved = resolve_traffic(search.traffic, search.of(search.one))
    pools = service(search.of(search.one), search.traffic, resolved, search.known).pools
    return tuple(int(pool.question.plan.ranks[0]) for pool in pools)


def fewest_gpus(meets: Callable[[Size], bool], first: Size, most: Size, gpus: Size) -> Size | None:
    """Return the pair of numbers with the fewest GPUs that meets a condition, None if none does.

    The condition is monotone: it stays met with more of either.

    Args:
        meets: Whether a pair meets the condition.
        first: Smallest numbers.
        most: Largest numbers.
        gpus: GPUs of one of each.

    Example:
        >>> from perfatlas.verbs.simulate.worker_search import fewest_gpus
        >>> fewest_gpus(lambda pair: pair[0] * pair[1] >= 12, (1, 1), (20, 20), (4, 1))
        (2, 6)
    """
    missed: list[Size] = []

    def met(size: Size) -> bool:
        if any(size[0] <= one[0] and size[1] <= one[1] for one in missed):
            return False
        if meets(size):
            return True
        missed.append(size)
        return False

    best = _first_met(met, first, most)
    if best is None:
        return None
    best = _reduced(met, _reduced(met, best, first, 0), first, 1)
    prefill = first[0]
    while prefill <= most[0]:
        left = gpus[0] * best[0] + gpus[1] * best[1] - 1 - gpus[0] * prefill
        decode = min(left // gpus[1], most[1])
        if decode < first[1]:
            break
        if met((prefill, decode)):
            best = _reduced(met, (prefill, decode), first, 1)
        prefill += 1
    return best


def _first_met(meets: Callable[[Size], bool], first: Size, most: Size) -> Size | None:
    """Return a pair that meets a condition: both numbers are doubled until one does."""
    factor = 1
    while True:
        size = tuple(min(factor * least, limit) for least, limit in zip(first, most, strict=True))
        if meets(size):
            return size
        if size == most:
            return None
        factor *= 2


def _reduced(meets: Callable[[Size], bool], met: Size, first: Size, pool: int) -> Size:
    """Return a pair that meets a condition with the smallest number of one pool, by bisection."""
    low, high = first[pool] - 1, met[pool]

    def pair(number: int) -> Size:
        return (number, met[1]) if pool == 0 else (met[0], number)

    while high - low > 1:
        middle = (low + high) // 2
        if meets(pair(middle)):
            high = middle
        else:
            low = middle
    return pair(high)


def _limits(search: SizeSearch) -> tuple[Size, Size]:
    """Return the numbers of workers that the capacities ask for, and the largest that are tried."""
    most = MAX_SCHEDULERS // 2 // search.scenario.attention_dp
    if not search.each:
        requests = resolve_traffic(search.traffic, search.of(search.one)).requests
        return search.one, (min(most, int(requests.isl_N.size)),) * 2
    first = tuple(math.floor(load.share) + 1 for load in search.each)
    if max(first) > most:
        raise InvalidSpecError(
            f"request_rate = {search.each[0].requests_per_s:g}: {search.text(first)} are needed,"
            f" and a simulation supports at most {most:,} of each; scale the traffic down"
        )
    return first, tuple(min(LARGEST * number, most) for number in first)
