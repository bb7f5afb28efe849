"""KV cache blocks of a scheduler: only counted, or identified if prefix caching is enabled.

Shape legend: N requests, S schedulers, B token slots of a block.
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
    """Return the number of blocks for tokens.

    Args:
        world: The simulation.
        tokens: Number of tokens.
    """
    return int((tokens + world.block_size - 1) // world.block_size)


@part
def promised(world: World, i: int) -> int:
    """Return the blocks a request needs until its end, for engines that reserve them.

    Args:
        world: The simulation.
        i: The request.

    Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp,
    getRemainingBlocksToCompletion(): prompt and all new tokens, although the last is never stored.
    """
    return int(count(world, world.request_N[i].isl + world.request_N[i].osl))


@part
def grow(world: World, s: int, steps: int) -> None:
    """Allocate blocks to decoding sequences for the next steps; there are enough.

    Args:
        world: The simulation.
        s: The scheduler.
        steps: Number of steps, from the current one.
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
    """Allocate a block to a decoding sequence for the next step; return the next one in need.

    Args:
        world: The simulation, with prefix caching.
        s: The scheduler, with at least one free block.
        i: A request that needs a block in this step.
    """
    return int(prefix.grow_one(world, s, i))


@part
def affordable(world: World, s: int, most: int) -> int:
    """Return how many further steps, up to `most`, have sufficient blocks.

    Args:
        world: The simulation.
        s: The scheduler.
        most: Maximum number of steps.
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
    """Return the leading cached blocks of a request, and how many of them are unreferenced.

    Args:
        world: The simulation.
        i: The waiting request.
    """
    found = 0
    idle = 0
    if world.prefix_caching:
        found, idle = prefix.find_prefix(world, i)
    return found, idle


@part
def share(world: World, i: int, found: int) -> None:
    """Reference the cached blocks of an admitted request.

    Args:
        world: The simulation.
        i: The request.
        found: Number of cached blocks, as just found.
    """
    if world.prefix_caching:
        prefix.share_prefix(world, i, found)
    request = world.request_N[i]
    request.computed = found * world.block_size
    request.placed = request.computed


@part
def load(world: World, i: int, hits: int, found: tuple[int, int]) -> None:
    """Load blocks of an admitted request from tiers below the GPU; there are enough free blocks.

    Args:
        world: The simulation.
        i: The request, with its hits on the GPU.
        hits: Leading blocks found on the GPU.
        found: Leading blocks in the tiers, and how many of them are in host memory.
    """
    take_up(world, i, hits, found)
    below = found[0]
    if below > hits:
        extend(world, i, below * world.block_size)
        world.request_N[i].computed = below * world.block_size


@part
def extend(world: World, i: int, tokens: int) -> None:
    """Allocate blocks for the first tokens of a request in prefill; there are enough.

    Args:
        world: The simulation.
        i: The request.
        tokens: Tokens that need a slot; `placed` of them have one.
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
    """Free the blocks of a request.

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
    """Register the full blocks of a finished prompt in the prefix cache, if not done yet.

    Args:
        world: The simulation.
        i: The request; one that was preempted meanwhile has no blocks.
    """
    request = world.request_N[i]
    if world.prefix_caching and not world.shares_scheduled and request.placed > 0:
        prefix.register(world, i, request.isl + request.generated)


@part
def keep_answer(world: World, i: int) -> None:
    """Register the full blocks of a request's output for its next turn, if there is one.

    Args:
        world: The simulation.
        i: The finished request, with its blocks.
    """
    if world.prefix_caching and world.request_N[i].heir != NOBODY:
        prefix.name_answer(world, i)
    elif world.prefix_caching:
        prefix.count_answer(world, i)


@part
def keep_known(world: World, i: int, tokens: int) -> None:
    """Register the full blocks of a request's first tokens, including its output.

    Args:
        world: The simulation.
        i: The request, with its blocks.
        tokens: Number of first tokens that are in the KV cache.
    """
    if world.prefix_caching:
        prefix.register(world, i, tokens)


@part
def join_growth(world: World, i: int) -> None:
    """Add a request that starts to decode to the group that needs blocks in the same steps.

    Args:
        world: The simulation.
        i: The request, admitted after all decoding ones.
    """
    residue = _residue(world, i)
    world.growth_SB[world.request_N[i].lane, residue] += 1
    if world.prefix_caching:
        prefix.join_growers(world, i, residue)


@part
def leave_growth(world: World, i: int) -> None:
    """Remove a request that stops decoding from its group.

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
