"""Search for the smallest number of replicas that meets the SLOs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted, significant
from perfatlas.scenario.deployments import resolve_traffic
from perfatlas.serving.config import MAX_SCHEDULERS
from perfatlas.verbs.simulate.judged_sizes import confirmed, judge, refuse_unmeetable

if TYPE_CHECKING:
    from perfatlas.verbs.simulate.judged_sizes import Size, SizeSearch

LARGEST: Final = 64  # largest number that is tried / number that the capacity asks for


def smallest_number(search: SizeSearch) -> Size:
    """Return the smallest number of replicas that meets the SLOs, as a size.

    Args:
        search: The search, updated in place.

    Raises:
        InfeasibleError: No number of replicas meets them.
        InvalidSpecError: More replicas are needed than a simulation supports.
        KeyboardInterrupt: The search was stopped.
    """
    first, most = _limits(search)
    refuse_unmeetable(search)
    met, missed, step = first, first - 1, 1
    while judge(search, (met,)).verdict != "met":
        if met >= most:
            raise _too_many(search, most)
        missed, met, step = met, min(met + step, most), 2 * step
    while met - missed > 1:
        middle = (met + missed) // 2
        if judge(search, (middle,)).verdict == "met":
            met = middle
        else:
            missed = middle
    if search.slower:
        return (met,)
    while not confirmed(search, (met,)):
        if met >= most:
            raise _too_many(search, most)
        met += 1
    return (met,)


def _too_many(search: SizeSearch, most: int) -> InfeasibleError:
    return InfeasibleError(
        f"no number of replicas up to {most:,} meets the SLOs: {search.judged[(most,)].reason}"
    )


def _limits(search: SizeSearch) -> tuple[int, int]:
    """Return the number of replicas that the capacity asks for, and the largest that is tried."""
    most = MAX_SCHEDULERS // search.scenario.attention_dp
    if not search.each:
        requests = resolve_traffic(search.traffic, search.of(search.one)).requests
        return 1, min(most, int(requests.isl_N.size))
    (each,) = search.each
    first = math.floor(each.share) + 1
    if first > most:
        raise InvalidSpecError(
            f"request_rate = {each.requests_per_s:g}: {first:,} replicas of"
            f" {significant(each.capacity_requests_per_s, 4)} requests/s are needed, and a"
            " simulation"
            f" supports at most {counted(most, 'replica')}; scale the traffic down"
        )
    return first, min(LARGEST * first, most)
