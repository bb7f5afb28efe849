"""What came of every request, and what the engine did, as columns.

Shape legend: N requests, W windows of the series, G borders of gaps, F replicas.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ticks = NDArray[np.int64]
# borders of gaps between tokens [ps]: 0, then 64 to a decade from 10 us to 100 s
GAP_EDGES: Final = np.append(0, np.rint(10.0 ** (7 + np.arange(449) / 64)).astype(np.int64))


class Series(NamedTuple):
    """State of all schedulers together, sampled at the first event of every pause.

    Args:
        time_W: Times (W,) [ps], rising.
        running_W: Requests that run (W,).
        waiting_W: Requests in queues (W,).
        used_W: Cache blocks that requests hold (W,).
        replicas_W: Replicas that serve (W,).
    """

    time_W: Ticks
    running_W: NDArray[np.int64]
    waiting_W: NDArray[np.int64]
    used_W: NDArray[np.int64]
    replicas_W: NDArray[np.int64]


class Travels(NamedTuple):
    """What came of requests between two pools; times in picoseconds, -1 where it never happened.

    All are empty without pools.

    Args:
        handed_N: End of the prompt, from which on its cache is handed over (N,).
        arrived_N: The cache is at the decode engine (N,).
        resumed_N: Start of the first step that decodes it there (N,).
        replica_N: Where it decoded (N,).
    """

    handed_N: Ticks
    arrived_N: Ticks
    resumed_N: Ticks
    replica_N: NDArray[np.int64]


class Operated(NamedTuple):
    """What came of requests and replicas where these fail, start or stop.

    Columns of requests are empty where they do not.

    Args:
        again_N: When a request was sent again last, its replica having failed (N,) [ps], or -1.
        tries_N: How often that failed under it (N,).
        lost_N: It was given up then (N,).
        rejected_N: It needs more cache than there is (N,).
        held_F: Time in which a replica served, started or drained (F,) [ps].
        wasted: Tokens that replicas had given of what they lost.
    """

    again_N: Ticks
    tries_N: NDArray[np.int64]
    lost_N: NDArray[np.bool_]
    rejected_N: NDArray[np.bool_]
    held_F: Ticks
    wasted: int


class Offloaded(NamedTuple):
    """What came of cache tiers below the GPU; columns of requests are empty without them.

    Of the two tiers, host memory comes first.

    Args:
        host_N: Prompt tokens loaded from host memory when a request was first admitted (N,).
        ssd_N: The same, from the SSD (N,).
        moved_N: What steps waited for copies of a request up to its first token (N,) [ps].
        loaded_2: Blocks loaded from each tier, those of requests that start over too (2,).
        stored: Blocks copied from the GPU.
        came_2: Blocks that were new to each tier (2,).
        went_2: Blocks it gave up for others (2,).
        held_2: Blocks it holds at the end (2,): those that came less those that went.
    """

    host_N: NDArray[np.int64]
    ssd_N: NDArray[np.int64]
    moved_N: Ticks
    loaded_2: NDArray[np.int64]
    stored: int
    came_2: NDArray[np.int64]
    went_2: NDArray[np.int64]
    held_2: NDArray[np.int64]


class Fronted(NamedTuple):
    """What front ends did with requests; empty where they take no time to read or to send.

    Args:
        read_N: When a prompt was tokenized (N,) [ps], -1 before.
        late_first_N: How late the client got the first output token (N,) [ps],
        late_last_N: and the last one (N,).
    """

    read_N: Ticks
    late_first_N: Ticks
    late_last_N: Ticks


class Outcome(NamedTuple):
    """What came of a simulation; times in picoseconds, -1 where it never happened.

    Args:
        arrival_N: Arrival (N,); what a closed loop or a session made of it.
        scheduled_N: Start of the first step with a token of the request (N,).
        first_token_N: End of the step that gave the first output token (N,).
        finished_N: End of the step that gave the last one (N,).
        replica_N: Where it ran, its prompt where there are pools, last (N,), -1 where it was
            rejected, waits for a replica that serves or, with no arrival, was not reached.
        preempted_N: Times it was preempted (N,).
        cached_N: Prompt tokens taken from the prefix cache, of tiers below the GPU too (N,).
        interference_N: What steps in which it decoded took beyond decoding alone, because prompts
            of any rank ran in them, and all of the steps with prompts for which it paused (N,);
            0 where it did not finish.
        lost_N: From the steps without it, after it was thrown out, to the ends of those that
            brought it back to the same token (N,).
        gaps_G: Gaps between two tokens of a request that lie from one of `GAP_EDGES` up to the
            next (G,), those of tokens too that SGLang drops as it retracts their request.
        steps: Steps the engines ran, coalesced ones counted one by one.
        preemptions: Over all requests.
        interrupted: The simulation was stopped before its end.
        series: State over time; empty where none was asked for.
        travels: Between two pools.
        busy_F: Time each replica ran steps (F,) [ps].
        steps_F: How many (F,).
        operated: Where replicas fail, start or stop.
        offloaded: Of cache tiers below the GPU.
        fronted: Of front ends.
    """

    arrival_N: Ticks
    scheduled_N: Ticks
    first_token_N: Ticks
    finished_N: Ticks
    replica_N: NDArray[np.int64]
    preempted_N: NDArray[np.int64]
    cached_N: NDArray[np.int64]
    interference_N: Ticks
    lost_N: Ticks
    gaps_G: NDArray[np.int64]
    steps: int
    preemptions: int
    interrupted: bool
    series: Series
    travels: Travels
    busy_F: Ticks
    steps_F: NDArray[np.int64]
    operated: Operated
    offloaded: Offloaded
    fronted: Fronted

    def rejected(self) -> NDArray[np.bool_]:
        """Return which requests need more cache than there is (N,)."""
        if self.operated.rejected_N.size:
            return self.operated.rejected_N
        came_N = self.fronted.read_N if self.fronted.read_N.size else self.arrival_N
        found: NDArray[np.bool_] = (came_N >= 0) & (self.replica_N < 0)
        return found

    def unserved(self) -> NDArray[np.bool_]:
        """Return which requests are left at the end though they could run (N,)."""
        left_N: NDArray[np.bool_] = (self.arrival_N >= 0) & (self.finished_N < 0)
        left_N &= ~self.rejected()
        return left_N & ~self.operated.lost_N if self.operated.lost_N.size else left_N


class Window(NamedTuple):
    """Requests that are measured, by their place in order of arrival.

    Args:
        first: Requests before it are warm-up.
        last: Requests from it on end while no others arrive.
        settled: Whether the warm-up ended in the first half of the run.
    """

    first: int
    last: int
    settled: bool
