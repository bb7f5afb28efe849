"""Waiting for the latest rank apart from transfer, in collectives that all ranks recorded.

Shape legend: C collectives, R ranks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.profiles.classes import COMMUNICATION
from perfatlas.profiles.events import NO_INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.profiles.events import OperatorCall, Profile


def waiting(
    profiles: Sequence[Profile], classes: Sequence[NDArray[np.int64]]
) -> dict[str, float | None]:
    """Return the mean times of a rank in collectives, waiting for the latest one and in transfer.

    The rank that comes last waits for none, so that its kernel takes the transfer alone, and what
    others take longer is waiting. Clocks need not agree. Collectives are matched by operation, size
    and order; those of which ranks recorded different numbers are left out.

    Args:
        classes: Class of each activity, an array (N) for each profile.

    Returns:
        `communication_wait_s` and `communication_transfer_s`, None without such collectives [s].
    """
    ranks = [_collectives(*pair) for pair in zip(profiles, classes, strict=True)]
    total_s, transfer_s = 0.0, 0.0
    for call, first_times in ranks[0].items() if len(ranks) > 1 else ():
        rank_times = [times_of.get(call, []) for times_of in ranks]
        if call.ranks == len(ranks) and all(len(time) == len(first_times) for time in rank_times):
            time_s_RC = np.array(rank_times)
            transfer_s += float(time_s_RC.min(axis=0).sum())
            total_s += float(time_s_RC.sum()) / len(ranks)
    return {
        "communication_wait_s": total_s - transfer_s if total_s else None,
        "communication_transfer_s": transfer_s if total_s else None,
    }


def _collectives(profile: Profile, class_N: NDArray[np.int64]) -> dict[OperatorCall, list[float]]:
    """Return the kernel times of each collective of a rank, in order [s]."""
    activities = profile.activities
    times: dict[OperatorCall, list[float]] = defaultdict(list)
    order = np.argsort(activities.start_s_N, kind="stable")
    is_collective_N = (class_N == COMMUNICATION) & (activities.call_N != NO_INDEX)
    for index in order[is_collective_N[order]].tolist():
        times[profile.calls[activities.call_N[index]]].append(float(activities.time_s_N[index]))
    return times
