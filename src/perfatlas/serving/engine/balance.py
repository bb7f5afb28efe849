"""Which replica has the least load, and which of several that have.

Equals take turns: the search begins after the replica that was found last, so that idle replicas
fill evenly whatever their numbers.

Source: nginx, ngx_http_upstream_least_conn_module: of peers with equally few connections it takes
the next in turn. vLLM's internal balancer likewise begins at another engine for every client
(vllm/v1/engine/core_client.py), and NVIDIA Dynamo draws one of equals.

Shape legend: F replicas of all kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.state import UP

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def least_loaded(world: World, pool: tuple[int, int], turn: int) -> int:
    """Return the replica of a pool that serves the fewest requests, the next in turn of equals.

    Args:
        world: The simulation; a replica of the pool serves.
        pool: Places of its first replica and after its last.
        turn: From which one on, counted from the first.
    """
    first, end = pool
    best = first + turn
    r = best
    for _ in range(end - first - 1):
        r += 1
        if r == end:
            r = first
        replica = world.replica_F[r]
        if replica.status == UP:
            held = world.replica_F[best]
            if replica.load < held.load or held.status != UP:
                best = r
    return int(best)
