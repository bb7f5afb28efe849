"""Cache blocks of a scheduler: counted, and told apart only where prefixes are shared.

Shape legend: N requests, S schedulers, B places in a cache block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import prefix
from perfatlas.serving.sequences.offload import keep_below, take_up
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def count(world: World, tokens: int) -> int:
    """Return the blocks of tokens.

    Args:
        world: The simulation.
        tokens: Tokens.
    """
    return int((tokens + world.block_size - 1) // world.block_size)


@part
def promised(world: World, i: int) -> int:
    """Return the blocks a request holds at its end, as engines that promise them count.

    Args:
        world: The simulation.
        i: The request.

    Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp,
    getRemainingBlocksToCompletion(): prompt and all new tokens, though the last is never stored.
    """
    return int(count(world, world.request_N[i].isl + world.request_N[i].osl))


@part
def grow(world: World, s: int, steps: int) -> None:
    """Give decoding sequences the blocks of the coming steps; there are enough.

    Args:
        world: The simulation.
        s: The scheduler.
        steps: Steps, from that of its counter.
    """
    lane = world.lane_S[s]
    size = world.block_size
    if world.prefix_caching:
        prefix.grow_named(world, s, steps)
        return
    lane.free -= steps // size * lane.decoding
    for j in range(steps % size):
        lane.free -= world.growth_SB[s, -(lane.step + j) % size]


@part
def grow_one(world: World, s: int, i: int) -> int:
    """Give a decoding sequence the block of the coming step; return who needs one after it.

    Args:
        world: The simulation, with prefix caching.
        s: The scheduler; a block is free.
        i: The request, one that needs a block in this step.
    """
    return int(prefix.grow_one(world, s, i))


@part
def affordable(world: World, s: int, most: int) -> int:
    """Return how many steps, up to `most`, have blocks after the one just scheduled.

    Args:
        world: The simulation.
        s: The scheduler.
        most: Steps wanted.
    """
    lane = world.lane_S[s]
    size = world.block_size
    if lane.decoding * ((most + size - 1) // size) <= lane.free:
        return most
    steps = lane.free // lane.decoding * size
    spare = lane.free % lane.decoding
    while steps < most:
        spare -= world.growth_SB[s, -(lane.step + 1 + steps) % size]
        if spare < 0:
            break
        steps += 1
    return int(min(steps, most))


@part
def hits(world: World, i: int) -> tuple[int, int]:
    """Return the leading blocks a request finds in the cache, and those of them nobody holds.

    Args:
        world: The simulation.
        i: The request, waiting.
    """
    found = 0
    idle = 0
    if world.prefix_caching:
        found, idle = prefix.find_prefix(world, i)
    return found, idle


@part
def share(world: World, i: int, found: int) -> None:
    """Let an admitted request hold the cached blocks it found.

    Args:
        world: The simulation.
        i: The request.
        found: Blocks, as just found.
    """
    if world.prefix_caching:
        prefix.share_prefix(world, i, found)
    request = world.request_N[i]
    request.computed = found * world.block_size
    request.placed = request.computed


@part
def load(world: World, i: int, hits: int, found: tuple[int, int]) -> None:
    """Let an admitted request hold what tiers below the GPU have of it; there are blocks enough.

    Args:
        world: The simulation.
        i: The request, with its hits on the GPU.
        hits: Leading blocks found there.
        found: Leading blocks in the tiers, and those of them in host memory.
    """
    take_up(world, i, hits, found)
    below = found[0]
    if below > hits:
        extend(world, i, below * world.block_size)
        world.request_N[i].computed = below * world.block_size


@part
def extend(world: World, i: int, tokens: int) -> None:
    """Give a request, whose prompt runs, blocks for its first tokens; there are enough.

    Args:
        world: The simulation.
        i: The request.
        tokens: Tokens that need a place; `placed` have one.
    """
    request = world.request_N[i]
    if world.prefix_caching:
        prefix.extend_named(world, i, tokens)
        if world.offloads:
            keep_below(world, i, tokens)
    else:
        lane = world.lane_S[request.lane]
        lane.free -= count(world, tokens) - count(world, request.placed)
    request.placed = tokens


@part
def release(world: World, i: int) -> None:
    """Give back the blocks of a request's tokens that have a place.

    Args:
        world: The simulation.
        i: The request.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    before = lane.free
    if world.prefix_caching:
        prefix.release_named(world, i)
    else:
        lane.free += count(world, request.placed)
    lane.spare += lane.free - before
    request.placed = 0


@part
def learn(world: World, i: int) -> None:
    """Let others find the full blocks of a prompt that has ended, where they do not yet.

    Args:
        world: The simulation.
        i: The request; one that has been thrown out meanwhile has nothing to be found.
    """
    request = world.request_N[i]
    if world.prefix_caching and not world.shares_scheduled and request.placed > 0:
        prefix.register(world, i, request.isl + request.generated)


@part
def keep_answer(world: World, i: int) -> None:
    """Let the next turn, where there is one, find the full blocks of a request's output.

    Args:
        world: The simulation.
        i: The request, finished, with its blocks.
    """
    if world.prefix_caching and world.request_N[i].heir != NOBODY:
        prefix.name_answer(world, i)
    elif world.prefix_caching:
        prefix.count_answer(world, i)


@part
def keep_known(world: World, i: int, tokens: int) -> None:
    """Let the full blocks of a request's first tokens be found, those of its own output too.

    Args:
        world: The simulation.
        i: The request, with its blocks.
        tokens: Its first tokens that are in the cache.
    """
    if world.prefix_caching:
        prefix.register(world, i, tokens)


@part
def join_growth(world: World, i: int) -> None:
    """Count a request that starts to decode among those that need blocks when it does.

    Args:
        world: The simulation.
        i: The request, admitted after all that decode.
    """
    residue = _residue(world, i)
    world.growth_SB[world.request_N[i].lane, residue] += 1
    if world.prefix_caching:
        prefix.join_growers(world, i, residue)


@part
def leave_growth(world: World, i: int) -> None:
    """Take a request that decodes no more from those that need blocks.

    Args:
        world: The simulation.
        i: The request.
    """
    residue = _residue(world, i)
    world.growth_SB[world.request_N[i].lane, residue] -= 1
    if world.prefix_caching:
        prefix.leave_growers(world, i, residue)


@part
def _residue(world: World, i: int) -> int:
    """Return a decoding request's context less its scheduler's steps, modulo a block's size."""
    request = world.request_N[i]
    return int((request.isl + request.osl - 1 - request.finish) % world.block_size)
