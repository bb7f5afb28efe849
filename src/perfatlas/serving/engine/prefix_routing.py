"""Prefix-aware routing by the prompts that the router has sent before.

The router stores a tree of prompts, with the replicas that received each node. A request goes to
the first replica that received the longest matching prefix of its prompt, if this exceeds a
fraction of the prompt; otherwise to the least loaded replica, with ties broken in turn. If loads
are too unbalanced, the least loaded replica gets it in any case. Every routed request is added to
the tree. The entries of a replica are removed when it stops serving.

Source: sglang-router 0.3.2, src/policies/cache_aware.rs, select_worker(), and src/policies/tree.rs,
prefix_match_with_counts(); defaults of src/sglang_router/router_args.py.

Limits: A node is a hashed block of the traffic, while sglang-router's is any string: prompts
without hashes never match. Among equal loads sglang-router selects the first in the order of its
registry; here ties are broken in turn. Nodes are not evicted; sglang-router's tree holds 2^26
characters per replica. When the first replica of a node has stopped, the lowest of the others is
used, where sglang-router uses any. Loads count serving replicas only.

Shape legend: N requests, H hashes of prompts, T nodes of the tree, F replicas of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.balance import least_loaded
from perfatlas.serving.state import NO_INDEX, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def route_by_prefix(sim: SimulationState, i: int, turn: int) -> tuple[int, int]:
    """Return the serving replica for a request, and the next turn."""
    entries = sim.pool_P2[0, 1]
    least = least_loaded(sim, (0, entries), turn)
    most = 0
    for r in range(entries):
        if sim.replica_F[r].status == UP:
            most = max(most, sim.replica_F[r].load)
    fewest = sim.replica_F[least].load
    imbalanced = (
        most - fewest > sim.affinity.balance_apart and most > fewest * sim.affinity.balance_ratio
    )
    chosen = least
    follows = False
    blocks = 0
    if sim.requests.hash_block > 0 and sim.requests.hash_first_N[i] >= 0:
        blocks = (sim.request_N[i].isl + sim.requests.hash_block - 1) // sim.requests.hash_block
    if not imbalanced:
        matched = 0  # length of the longest matching prefix [tokens]
        owner = NO_INDEX  # its first replica
        for b in range(blocks):
            holder = _owner(sim, _node(sim, i, b))
            if holder == NO_INDEX:
                break
            owner = holder
            matched += sim.requests.hash_block
        if min(matched, sim.request_N[i].isl) > sim.affinity.match_share * sim.request_N[i].isl:
            chosen = owner
            follows = True
    era = sim.replica_F[chosen].era
    for b in range(blocks):
        node = _node(sim, i, b)
        if _owner(sim, node) == NO_INDEX:
            sim.owner_T[node] = chosen
        sim.got_TF[node, chosen] = era
    return int(chosen), turn if follows else (least + 1) % entries


@part
def _node(sim: SimulationState, i: int, b: int) -> int:
    """Return the node of block b of a prompt."""
    if b < sim.request_N[i].isl // sim.requests.hash_block:
        return int(sim.node_H[sim.requests.hash_first_N[i] + b])
    return int(sim.node_tail_N[i])


@part
def _owner(sim: SimulationState, node: int) -> int:
    """Return the replica of a node of the tree, NO_INDEX if there is none."""
    owner = sim.owner_T[node]
    if owner != NO_INDEX and sim.got_TF[node, owner] == sim.replica_F[owner].era:
        return int(owner)
    for r in range(sim.pool_P2[0, 1]):
        if sim.got_TF[node, r] == sim.replica_F[r].era:
            sim.owner_T[node] = r
            return int(r)
    return NO_INDEX


@part
def drop_replica(sim: SimulationState, r: int) -> None:
    """Remove the entries of a replica from the tree."""
    sim.replica_F[r].era += 1
