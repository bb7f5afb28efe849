"""What a router remembers of the prompts it has sent, to send their like after them.

It keeps a tree of prompts, and of every node the replicas that got it. A request goes to the first
replica that got the longest known beginning of its prompt, where that is more than a share of the
prompt; otherwise to the least loaded, of equals to the next in turn. Where loads are too far apart
the least loaded takes it in any case. The tree learns of every request where it went. What a
replica got is forgotten when it stops serving.

Source: sglang-router 0.3.2, src/policies/cache_aware.rs, select_worker(), and src/policies/tree.rs,
prefix_match_with_counts(); defaults of src/sglang_router/router_args.py.

Limits: a node is a block of the hashes of the traffic, where the router's is any run of characters:
a prompt without hashes matches nothing. Of equal loads the router takes the first of a list whose
order its registry gives; here they take turns. Nodes are not evicted; the router's tree holds 2^26
characters of a replica. When the first replica of a node has stopped, the lowest of the others
stands in, where the router takes any. Loads count replicas that serve, not those that fail.

Shape legend: N requests, H hashes of prompts, T nodes of the tree, F replicas of all kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.balance import least_loaded
from perfatlas.serving.state import NOBODY, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def follow_prefix(world: World, i: int, turn: int) -> tuple[int, int]:
    """Return the replica of a request, among those that serve, and whose turn is next.

    Args:
        world: The simulation, in which a replica serves; it remembers where the prompt went.
        i: The request.
        turn: Of equal loads; who follows a prompt takes none.
    """
    least = least_loaded(world, (0, world.entries), turn)
    most = 0
    for r in range(world.entries):
        if world.replica_F[r].status == UP:
            most = max(most, world.replica_F[r].load)
    fewest = world.replica_F[least].load
    apart = most - fewest > world.balance_apart and most > fewest * world.balance_ratio
    chosen = least
    follows = False
    if not apart:
        matched, owner = _longest_match(world, i)
        if matched > world.match_share * world.request_N[i].isl:
            chosen = owner
            follows = True
    _remember(world, i, chosen)
    return int(chosen), turn if follows else (least + 1) % world.entries


@part
def _longest_match(world: World, i: int) -> tuple[int, int]:
    """Return the tokens of the longest known beginning of a prompt, and who got it first."""
    matched = 0
    owner = NOBODY
    for h in range(world.hash_first_N[i], world.hash_first_N[i + 1]):
        found = _owner(world, world.node_H[h])
        if found == NOBODY:
            break
        owner = found
        matched += world.hash_block
    return min(matched, world.request_N[i].isl), owner


@part
def _owner(world: World, node: int) -> int:
    """Return the replica that stands for a node of the tree, NOBODY where none got it."""
    owner = world.owner_T[node]
    if owner != NOBODY and world.got_TF[node, owner] == world.replica_F[owner].era:
        return int(owner)
    for r in range(world.entries):
        if world.got_TF[node, r] == world.replica_F[r].era:
            world.owner_T[node] = r
            return int(r)
    return NOBODY


@part
def _remember(world: World, i: int, r: int) -> None:
    """Let the tree know where a prompt went."""
    era = world.replica_F[r].era
    for h in range(world.hash_first_N[i], world.hash_first_N[i + 1]):
        node = world.node_H[h]
        if _owner(world, node) == NOBODY:
            world.owner_T[node] = r
        world.got_TF[node, r] = era


@part
def forget_replica(world: World, r: int) -> None:
    """Let the tree forget what a replica got.

    Args:
        world: The simulation.
        r: The replica, among all.
    """
    world.replica_F[r].era += 1
