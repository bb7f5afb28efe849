"""Routers of the caller: a function that chooses the replica of each arriving request.

The event loop stops at every arrival, and goes on with the replica that the function returns.

Shape legend: F replicas of the pool that requests enter, H hashes of a prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.state import UP

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfatlas.serving.requests import Requests
    from perfatlas.serving.state import SimulationState


class ArrivingRequest(NamedTuple):
    """A request at the router."""

    now_s: float  # Time since the start of the simulation [s]
    request: int  # Its index in the traffic
    isl: int  # Tokens of its prompt
    session: int  # Its session, -1 for none
    prefix_hash_ids: NDArray[np.int64]  # Hashes of the blocks of its prompt (H,); empty for none


class ReplicaLoads(NamedTuple):
    """What a router sees of the replicas, each (F,)."""

    in_service: NDArray[np.bool_]  # False while a replica has failed, starts or drains
    requests: NDArray[np.int64]  # Requests that were routed to it and have not ended
    waiting: NDArray[np.int64]  # Those of them that have not been admitted
    kv_used: NDArray[np.float64]  # Share of its KV cache that running requests hold, 0 to 1


def chooser(
    router: Callable[[ArrivingRequest, ReplicaLoads], object],
    sims: tuple[SimulationState, ...],
    requests: Requests,
) -> Callable[[], None]:
    """Return a function that lets a router choose the replica of the request that waits for it.

    Raises (when called):
        InvalidSpecError: The router returns no replica of the pool in service, nor a negative
            number.
    """
    shared = sims[0]
    first, end = (int(number) for number in shared.pool_P2[0])
    entries = [sim for sim in sims if sim.first_replica < end]

    def choose() -> None:
        clock = shared.clock_1[0]
        i = int(clock["asked"]) - 1
        replica_F = shared.replica_F[first:end]
        schedulers = [_by_replica(sim) for sim in entries]
        waiting_F, free_F, blocks_F = (
            np.concatenate(column) for column in zip(*schedulers, strict=True)
        )
        loads = ReplicaLoads(
            replica_F["status"] == UP,
            replica_F["load"].copy(),
            waiting_F,
            1.0 - free_F / blocks_F,
        )
        isl, start = int(requests.isl_N[i]), int(requests.hash_first_N[i])
        blocks = isl // requests.hash_block if requests.hash_block > 0 and start >= 0 else 0
        arriving = ArrivingRequest(
            float(clock["now"]) / TICKS_PER_SECOND,
            i,
            isl,
            int(requests.session_N[i]),
            requests.hash_H[start : start + blocks],
        )
        chosen = router(arriving, loads)
        if (
            not isinstance(chosen, int | np.integer)
            or isinstance(chosen, bool)
            or chosen >= end - first
        ):
            raise InvalidSpecError(
                f"the router returned {repr_for_error(chosen)} for request {i}; return the index of"
                f" a replica, 0 to {end - first - 1}, or -1 to reject the request"
            )
        if chosen >= 0 and not loads.in_service[chosen]:
            raise InvalidSpecError(
                f"the router returned replica {chosen} for request {i}, which is not in service"
                f" at {arriving.now_s:g} s; choose one with in_service, or -1 to reject the request"
            )
        clock["chosen"] = first + chosen if chosen >= 0 else -1

    return choose


def _by_replica(
    sim: SimulationState,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return waiting requests, free KV blocks and all blocks of the replicas of a type (R,)."""
    number = sim.replica_R.size // max(sim.stages, 1)
    columns = sim.scheduler_S[: number * sim.ranks].reshape(number, sim.ranks)
    waiting_RK = columns["waiting"] + columns["unread"] + columns["retracted"]
    return (
        waiting_RK.sum(axis=1),
        columns["free"].sum(axis=1),
        np.full(number, sim.limits.kv_blocks * sim.ranks),
    )
