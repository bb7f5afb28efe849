"""Least-loaded routing and its tie-breaking.

Ties are broken in turn: the search starts after the last selected replica, so that idle replicas
fill evenly.

Source: nginx, ngx_http_upstream_least_conn_module: among peers with equally few connections it
selects the next in turn. vLLM's internal balancer also starts at another engine for every client
(vllm/v1/engine/core_client.py); NVIDIA Dynamo selects at random.

Shape legend: F replicas of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.state import UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def least_loaded(sim: SimulationState, pool: tuple[int, int], turn: int) -> int:
    """Return the replica of a pool with the fewest requests, with ties broken in turn."""
    first, end = pool
    best = first + turn
    r = best
    for _ in range(end - first - 1):
        r += 1
        if r == end:
            r = first
        replica = sim.replica_F[r]
        if replica.status == UP:
            leader = sim.replica_F[best]
            if replica.load < leader.load or leader.status != UP:
                best = r
    return int(best)
