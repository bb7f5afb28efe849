"""What one scheduler is to the event loop: facts about it, and a few compiled functions.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfatlas.serving.policies.defaults import (
    fits_in_cache,
    ignore,
    keeps_waiting,
    put_in_queue,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A scheduler of an engine: its row in `POLICIES`.

    Functions are compiled into the event loop, marked `part`, and get the engines of a kind as
    `world`. All but `schedule` have a default.

    Args:
        name: Selects it, as `Limits.rules`; several rows may share one for different roles.
        title: Of the scheduler, within a sentence.
        description: How it schedules, as a sentence.
        roles: Of `ROLES`, the phases of a request that its engines serve.
        reads: Limits that only some schedulers read, this one among them.
        fixed: Limits that must have this value in a pool, by role.
        supports_drafts: Speculative decoding is simulated.
        supports_offload: Cache tiers below the GPU are simulated.
        requires_chunks: Prompts always run in chunks where they do not fit.
        chunks_whole_blocks: A chunk that is cut short is a multiple of a cache block.
        reserves_blocks: A request that starts reserves all blocks that it will ever hold.
        foresees_ends: When a step is scheduled ahead, the sequences that end in the one that runs
            are known; otherwise they decode once more.
        shares_scheduled: Others find the full blocks of a prompt as soon as they are scheduled,
            otherwise when the whole prompt has been computed.
        reuses_unnamed: With prefix caching, blocks of which nothing can be found are given out
            before those that still hold a prefix.
        idle_passes: Times that an engine with nothing to run schedules at one instant.
        schedule: (world, s, now): decides what scheduler s runs in the step that begins at `now`
            [ps]: admits, runs chunks, grows, preempts.
        enqueue: (world, i): takes a request that has arrived; returns whether the scheduler must
            see it at the next end of a step.
        steady_steps: (world, s): how many steps at most may follow the one just scheduled, which
            only decodes, without a look at the queue; `MANY` for any number.
        on_last_token: (world, i): a request that decoded has its last token.
        on_idle: (world, s): an engine without a step that runs found nothing to run.
        can_hold: (world, i, tokens): whether an empty cache could hold a request of so many tokens
            of prompt and output to its end.

    Example:
        >>> from perfatlas.serving.policies import find_policy
        >>> find_policy("sglang", "decode").idle_passes
        3
    """

    name: str
    title: str
    description: str
    roles: tuple[str, ...] = ("both",)
    reads: frozenset[str] = frozenset()
    fixed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    supports_drafts: bool = False
    supports_offload: bool = False
    requires_chunks: bool = False
    chunks_whole_blocks: bool = False
    reserves_blocks: bool = False
    foresees_ends: bool = True
    shares_scheduled: bool = False
    reuses_unnamed: bool = False
    idle_passes: int = 1
    schedule: Callable[..., Any]
    enqueue: Callable[..., Any] = put_in_queue
    steady_steps: Callable[..., Any] = keeps_waiting
    on_last_token: Callable[..., Any] = ignore
    on_idle: Callable[..., Any] = ignore
    can_hold: Callable[..., Any] = fits_in_cache
