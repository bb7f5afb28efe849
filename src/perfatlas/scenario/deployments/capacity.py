"""KV cache capacity of a deployment: the blocks that a simulation uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.parallelism import plan_problems
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import candidate_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.parallelism import MemoryColumns
    from perfatlas.scenario.fields import Scenario
    from perfatlas.step import Candidates


@dataclass(frozen=True, kw_only=True)
class CacheCapacity:
    """KV cache of one scheduler: one attention-DP rank of one replica."""

    blocks: int  # Blocks, including those the engine reserves
    tokens: int
    cache_bytes: float  # Memory available for the cache on the fullest rank [bytes]
    weights_bytes: float  # Weights on that rank [bytes]


def derived_blocks(question: Candidates, memory: MemoryColumns) -> int:
    """Return the number of cache blocks that fit in memory, per scheduler."""
    ranks, block = int(question.plan.attention_dp[0]), int(question.limits.block_size[0])
    return int(memory.kv_capacity_tokens[0]) // ranks // block


def reserved_blocks_note(question: Candidates) -> list[str]:
    """Return the difference between usable and allocated KV cache, nothing without one."""
    reserved, block = question.profile.memory.reserved_blocks, question.limits.block_size[0]
    if not reserved or not np.isnan(question.limits.kv_blocks[0]):
        return []
    note = (
        f"of the KV cache of each scheduler {question.profile.id} reserves {reserved} block of"
        f" {block:g} tokens, which the capacity of estimate includes and this one does not"
    )
    return [note]


def cache_capacity(
    scenario: Scenario, engine_memory: Mapping[str, Any] | None = None
) -> CacheCapacity:
    """Return the KV cache capacity of a scenario, as `simulate` derives it.

    Args:
        scenario: A model on a system, its plan, engine and limits.
        engine_memory: Engine memory fields to override, as in another engine version.

    Raises:
        InvalidSpecError: A name, value or plan is invalid.
        UnsupportedError: No model, data or engine for the combination.

    Example:
        >>> from perfatlas.scenario.fields import Scenario
        >>> from perfatlas.scenario.deployments import cache_capacity
        >>> found = cache_capacity(Scenario(model="meta-llama/Llama-3.1-8B", system="h200_sxm"))
        >>> found.tokens == 16 * found.blocks
        True
    """
    question, problems = resolve_scenarios([scenario])
    if question is None:
        raise problems[0] or InvalidSpecError("no candidate is left to size the KV cache for")
    (problem,) = plan_problems(question.model.network, question.plan)
    if problem is not None:
        raise InvalidSpecError(problem)
    if engine_memory:
        changed = replace(question.profile.memory, **engine_memory)
        question = replace(question, profile=replace(question.profile, memory=changed))
    memory = candidate_memory(question)
    blocks = derived_blocks(question, memory)
    fixed = memory.total_bytes - memory.kv_bytes
    return CacheCapacity(
        blocks=blocks,
        tokens=blocks * int(question.limits.block_size[0]),
        cache_bytes=float((memory.capacity_bytes - fixed)[0]),
        weights_bytes=float(memory.weights_bytes[0]),
    )
