"""Cache blocks of a scheduler: counted, and told apart only where prefixes are shared.

Shape legend: N requests, S schedulers, B places in a cache block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.serving import prefix
from perfatlas.serving.machine import part

if TYPE_CHECKING:
    from perfatlas.serving.state import Setup, State


@part
def grow(setup: Setup, state: State, s: int, steps: int) -> None:
    """Give decoding sequences the blocks of the coming steps; there are enough.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        s: The scheduler.
        steps: Steps, from that of its counter.
    """
    lane = state.lane_S[s]
    size = setup.limits.block_size
    if setup.limits.prefix_caching:
        prefix.grow_named(setup, state, s, steps)
        return
    lane.free -= steps // size * lane.decoding
    for j in range(steps % size):
        lane.free -= state.growth_SB[s, -(lane.step + j) % size]


@part
def affordable(setup: Setup, state: State, s: int, most: int) -> int:
    """Return how many steps, up to `most`, have blocks after the one just scheduled.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        s: The scheduler.
        most: Steps wanted.
    """
    lane = state.lane_S[s]
    size = setup.limits.block_size
    if lane.decoding * ((most + size - 1) // size) <= lane.free:
        return most
    steps = lane.free // lane.decoding * size
    spare = lane.free % lane.decoding
    while steps < most:
        spare -= state.growth_SB[s, -(lane.step + 1 + steps) % size]
        if spare < 0:
            break
        steps += 1
    return int(min(steps, most))


@part
def hits(setup: Setup, state: State, i: int) -> tuple[int, int]:
    """Return the leading blocks a request finds in the cache, and those of them nobody holds.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request, waiting.
    """
    found = 0
    idle = 0
    if setup.limits.prefix_caching:
        found, idle = prefix.find_prefix(setup, state, i)
    return found, idle


@part
def share(setup: Setup, state: State, i: int, found: int) -> None:
    """Let an admitted request hold the cached blocks it found.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
        found: Blocks, as just found.
    """
    if setup.limits.prefix_caching:
        prefix.share_prefix(state, i, found)
    state.request_N[i].computed = found * setup.limits.block_size


@part
def extend(setup: Setup, state: State, i: int, tokens: int) -> None:
    """Give a request, whose prompt runs, blocks for its first tokens; there are enough.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
        tokens: Tokens that need a place; `computed` have one.
    """
    request = state.request_N[i]
    size = setup.limits.block_size
    if setup.limits.prefix_caching:
        prefix.extend_named(setup, state, i, tokens)
        return
    lane = state.lane_S[request.lane]
    lane.free -= (tokens + size - 1) // size - (request.computed + size - 1) // size


@part
def release(setup: Setup, state: State, i: int) -> None:
    """Give back the blocks of a request's computed tokens.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
    """
    request = state.request_N[i]
    size = setup.limits.block_size
    if setup.limits.prefix_caching:
        prefix.release_named(setup, state, i)
        return
    state.lane_S[request.lane].free += (request.computed + size - 1) // size


@part
def keep_known(setup: Setup, state: State, i: int) -> None:
    """Let a request that is thrown out find its blocks again, those of its own output too.

    No other request has them, so that they need not be known before.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request, still with its blocks.
    """
    if setup.limits.prefix_caching:
        prefix.register(setup, state, i, state.request_N[i].computed)


@part
def join_growth(setup: Setup, state: State, i: int) -> None:
    """Count a request that starts to decode among those that need blocks when it does.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request, admitted after all that decode.
    """
    residue = _residue(setup, state, i)
    state.growth_SB[state.request_N[i].lane, residue] += 1
    if setup.limits.prefix_caching:
        prefix.join_growers(state, i, residue)


@part
def leave_growth(setup: Setup, state: State, i: int) -> None:
    """Take a request that decodes no more from those that need blocks.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
    """
    residue = _residue(setup, state, i)
    state.growth_SB[state.request_N[i].lane, residue] -= 1
    if setup.limits.prefix_caching:
        prefix.leave_growers(state, i, residue)


@part
def _residue(setup: Setup, state: State, i: int) -> int:
    """Return a decoding request's context less its scheduler's steps, modulo a block's size."""
    request = state.request_N[i]
    return int((request.isl + request.osl - 1 - request.finish) % setup.limits.block_size)
