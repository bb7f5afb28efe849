"""Results of every request and engine of a simulation, as columns.

Shape legend: N requests, W rows of the series, G edges of the gap histogram, F replicas.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ticks = NDArray[np.int64]
# edges of the histogram of token gaps [ps]: 0, of tokens of the same step, alone in its cell; then
# 64 per decade from 10 µs to 100 s
GAP_EDGES: Final = np.append([0, 1], np.rint(10.0 ** (7 + np.arange(449) / 64)).astype(np.int64))


class Series(NamedTuple):
    """State of all schedulers together, sampled at the first event of each interval."""

    time_W: Ticks  # Times in ascending order (W,) [ps]
    running_W: NDArray[np.int64]  # Running requests (W,)
    waiting_W: NDArray[np.int64]  # Waiting requests (W,)
    used_W: NDArray[np.int64]  # KV cache blocks in use by requests (W,)
    replicas_W: NDArray[np.int64]  # Serving replicas (W,)


class Transfers(NamedTuple):
    """Transfers of requests between two pools; times in picoseconds, -1 if it never happened.

    All columns are empty without pools.
    """

    handed_N: Ticks  # End of the prompt, when the transfer is requested (N,)
    arrived_N: Ticks  # Arrival of the KV cache at the decode engine (N,)
    resumed_N: Ticks  # Start of its first decode step there (N,)
    replica_N: NDArray[np.int64]  # Decode replica (N,)


class ReplicaOutcome(NamedTuple):
    """Effects of outages and autoscaling on requests and replicas.

    Columns of requests are empty without them.
    """

    again_N: Ticks  # Time of the last retry after a replica failure (N,) [ps], or -1
    tries_N: NDArray[np.int64]  # Number of replica failures that affected it (N,)
    lost_N: NDArray[np.bool_]  # Whether it was lost in a failure (N,)
    rejected_N: NDArray[np.bool_]  # Whether it needs more KV cache than available (N,)
    allocated_F: Ticks  # Time in which a replica served, started or drained (F,) [ps]
    wasted: int  # Output tokens of requests that were lost or restarted


class Offloaded(NamedTuple):
    """Statistics of cache tiers below the GPU; columns of requests are empty without them.

    Triples are in the order host memory, SSD, remote pool.
    """

    # Prompt tokens loaded from host memory when a request was first admitted (N,)
    host_N: NDArray[np.int64]
    ssd_N: NDArray[np.int64]  # Prompt tokens loaded from the SSD (N,)
    remote_N: NDArray[np.int64]  # Prompt tokens loaded from the remote pool (N,)
    # Time that steps waited for copies of a request, up to its first token (N,) [ps]
    moved_N: Ticks
    # Blocks loaded from each tier, including those of restarted requests (3,)
    loaded_3: NDArray[np.int64]
    stored: int  # Blocks copied from the GPU
    entered_3: NDArray[np.int64]  # Blocks added to each tier (3,)
    left_3: NDArray[np.int64]  # Blocks evicted from each tier (3,)
    held_3: NDArray[np.int64]  # Blocks in each tier at the end (3,): added less evicted


class FrontEndTimes(NamedTuple):
    """Front-end times of requests; empty if tokenization and streaming take no time."""

    read_N: Ticks  # Time when the prompt was tokenized (N,) [ps], -1 before
    late_first_N: Ticks  # Delay of the first output token at the client (N,) [ps]
    late_last_N: Ticks  # Delay of the last output token at the client (N,) [ps]


class RunEnergy(NamedTuple):
    """Energy of a run; zero for devices without energies."""

    dynamic_j_F: NDArray[np.float64]  # Dynamic energy of the GPUs of each replica (F,) [J]
    prompt_j_F: NDArray[np.float64]  # Its part that prompts added to steps (F,) [J]
    prompts_F: Ticks  # Time that prompts added to the steps of each replica (F,) [ps]
    waits_F: Ticks  # Time within steps in which the GPUs of each replica ran no kernel (F,) [ps]
    prompt_waits_F: Ticks  # Its part in `prompts_F` (F,) [ps]
    time_W: Ticks  # Times in ascending order (W,) [ps]: the rows of the series, and the last event
    # Energy of all GPUs up to each time, with the power that GPUs draw without kernels (W,) [J]
    energy_j_W: NDArray[np.float64]


_NO_TICKS: Final = np.zeros(0, np.int64)
NO_ENERGY: Final = RunEnergy(
    *(np.zeros(0), np.zeros(0), _NO_TICKS, _NO_TICKS, _NO_TICKS, _NO_TICKS, np.zeros(0))
)


class Outcome(NamedTuple):
    """Results of a simulation; times in picoseconds, -1 if it never happened."""

    arrival_N: Ticks  # Arrival, as determined by a closed loop or session if any (N,)
    scheduled_N: Ticks  # Start of the first step with a token of the request (N,)
    first_token_N: Ticks  # End of the step that produced the first output token (N,)
    finished_N: Ticks  # End of the step that produced the last output token (N,)
    # Last replica it ran on (prefill, with pools) (N,); -1 if it was rejected, waits for a serving
    # replica, or did not arrive
    replica_N: NDArray[np.int64]
    preempted_N: NDArray[np.int64]  # Times it was preempted (N,)
    # Prompt tokens from the prefix cache, including tiers below the GPU (N,)
    cached_N: NDArray[np.int64]
    # Time that prompts of any rank added to its decode steps, plus the steps with prompts for which
    # it was paused (N,); 0 if it did not finish
    interference_N: Ticks
    lost_N: Ticks  # Time from each preemption until it is recomputed to the same token (N,)
    # Histogram over `GAP_EDGES` of the gaps between tokens (G,), including tokens that SGLang
    # discards when it retracts a request
    gaps_G: NDArray[np.int64]
    steps: int  # Steps of all engines, including batched ones
    preemptions: int  # Total preemptions
    interrupted: bool  # Whether the simulation was stopped early
    series: Series  # State over time; empty unless requested
    travels: Transfers  # Transfers between two pools
    busy_F: Ticks  # Time in which each replica ran steps (F,) [ps]
    steps_F: NDArray[np.int64]  # Steps of each replica (F,)
    operated: ReplicaOutcome  # Effects of outages and autoscaling
    offloaded: Offloaded  # Statistics of cache tiers below the GPU
    fronted: FrontEndTimes
    energy: RunEnergy = NO_ENERGY

    def rejected(self) -> NDArray[np.bool_]:
        """Return which requests need more KV cache than available (N,)."""
        if self.operated.rejected_N.size:
            return self.operated.rejected_N
        came_N = self.fronted.read_N if self.fronted.read_N.size else self.arrival_N
        rejected_N: NDArray[np.bool_] = (came_N >= 0) & (self.replica_N < 0)
        return rejected_N

    def unserved(self) -> NDArray[np.bool_]:
        """Return which valid requests are unfinished at the end (N,)."""
        left_N: NDArray[np.bool_] = (self.arrival_N >= 0) & (self.finished_N < 0)
        left_N &= ~self.rejected()
        return left_N & ~self.operated.lost_N if self.operated.lost_N.size else left_N


class Window(NamedTuple):
    """Requests that are measured, by their place in order of arrival."""

    first: int  # Requests before it are warm-up
    last: int  # Requests from it on end while no others arrive
    settled: bool  # Whether the warm-up ended in the first half of the run
