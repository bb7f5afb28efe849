"""Cache blocks of a scheduler: counted, and told apart only where prefixes are shared.

Shape legend: N requests, S schedulers, B places in a cache block.
"""

from __future__ import annotations

from perfatlas.serving.machine import part
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
    return min(steps, most)


@part
def hits(setup: Setup, state: State, s: int, i: int) -> tuple[int, int]:
    """Return the leading blocks a request finds in the cache, and those of them nobody holds.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        s: The scheduler.
        i: The request, waiting.
    """
    return 0, 0


@part
def share(setup: Setup, state: State, s: int, i: int) -> None:
    pass


@part
def register_output(setup: Setup, state: State, i: int) -> None:
    pass


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
    state.lane_S[request.lane].free += (request.computed + size - 1) // size


@part
def join_growth(setup: Setup, state: State, i: int) -> None:
    """Count a request that starts to decode among those that need blocks when it does.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
    """
    request = state.request_N[i]
    state.growth_SB[request.lane, residue(setup, request)] += 1


@part
def leave_growth(setup: Setup, state: State, i: int) -> None:
    """Take a request that decodes no more from those that need blocks.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request.
    """
    request = state.request_N[i]
    state.growth_SB[request.lane, residue(setup, request)] -= 1


@part
def residue(setup: Setup, request):
    return (request.isl + request.osl - 1 - request.finish) % setup.limits.block_size
