"""Records of synchronization in Kineto traces: which activity another, or the host, waited for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.profiles.events import NO_INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.profiles.events import Pairs

    IntArray = NDArray[np.int64]

DEVICE_WAIT: Final = "Stream Wait Event"
_HOST_WAITS: Final = ("Stream Sync", "Event Sync")


class Wait(NamedTuple):
    """A recorded wait."""

    correlation: int  # Correlation of the call that asked for it
    device: int  # Number of the device
    stream: int  # Stream that waits, NO_INDEX if the host does
    awaited: int  # Stream that is waited for
    record: int  # Correlation of the call that recorded the event, or of the waiting call itself


def wait_of(event: Mapping[str, Any]) -> Wait | None:
    """Return the wait that an event of category cuda_sync records, None if it names no stream."""
    args, name = event["args"], event["name"]
    correlation, device = int(args["correlation"]), int(args.get("device", 0))
    stream = int(args.get("stream", NO_INDEX))
    if name == _HOST_WAITS[0]:
        return Wait(correlation, device, NO_INDEX, stream, correlation) if stream >= 0 else None
    awaited = int(args.get("wait_on_stream", NO_INDEX))
    record = int(args.get("wait_on_cuda_event_record_corr_id", NO_INDEX))
    is_host = name in _HOST_WAITS
    if min(awaited, record) < 0 or not (is_host or (name == DEVICE_WAIT and stream >= 0)):
        return None
    return Wait(correlation, device, NO_INDEX if is_host else stream, awaited, record)


def pairs_of(
    waits: Sequence[Wait], called: Mapping[int, int], queue_N: IntArray, called_N: IntArray
) -> tuple[Pairs, Pairs]:
    """Return what activities and calls of the host waited for.

    Args:
        called: Start of each call by its correlation [ns].
        queue_N: Device and stream of each activity (N, 2).
        called_N: Start of the launch of each activity, negative without one (N,) [ns].

    Returns:
        Activities (later, earlier), and waits of the host (correlation of the call, activity).
    """
    launched: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for activity, start_ns in enumerate(called_N.tolist()):
        if start_ns >= 0:
            launched[tuple(queue_N[activity].tolist())].append((start_ns, activity))
    for pairs in launched.values():
        pairs.sort()
    of_activities, of_host = [], []
    for wait in waits:
        if wait.record not in called or wait.correlation not in called:
            continue
        before = launched[wait.device, wait.awaited]
        started = bisect_right(before, called[wait.record], key=lambda pair: pair[0])
        if not started:
            continue
        earlier = before[started - 1][1]
        if wait.stream == NO_INDEX:
            of_host.append((wait.correlation, earlier))
            continue
        after = launched[wait.device, wait.stream]
        index = bisect_left(after, called[wait.correlation], key=lambda pair: pair[0])
        of_activities += [(after[index][1], earlier)] if index < len(after) else []
    return tuple(of_activities), tuple(of_host)
