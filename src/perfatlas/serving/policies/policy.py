"""Interface between a scheduling policy and the event loop.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfatlas.compiled import part
from perfatlas.serving.sequences import UNLIMITED_STEPS, blocks, queue_last

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.serving.state import SimulationState


@part
def append_to_queue(sim: SimulationState, i: int) -> bool:
    """Append a request to the queue; return whether it may start in the next step."""
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    opens = scheduler.waiting == 0 and scheduler.running < sim.limits.max_num_seqs
    queue_last(sim, i)
    return bool(opens)


@part
def always_steady(sim: SimulationState, s: int) -> int:  # noqa: ARG001 - part of the protocol
    """Return UNLIMITED_STEPS: the head of the queue, if it does not fit now, will not fit later.

    While sequences only decode, free blocks decrease and no sequence leaves.
    """
    return UNLIMITED_STEPS


@part
def do_nothing(sim: SimulationState, index: int) -> None:
    """Do nothing.

    Args:
        index: Index of the request or the scheduler.
    """


@part
def fits_in_cache(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether the KV cache has blocks for a request and the drafts of a step."""
    return bool(blocks.count(sim, tokens + sim.limits.draft_tokens) <= sim.limits.kv_blocks)


def one_step_of_drafts(drafts: int, ahead: bool) -> int:  # noqa: ARG001, FBT001 - part of the protocol
    """Return the slots of one step: a token and its drafts."""
    return 1 + drafts


@dataclass(frozen=True, kw_only=True)
class BatchingPolicy:
    """A scheduling policy: a row in `POLICIES`.

    Functions are compiled into the event loop, marked `part`, and get the engines of one type as
    `sim`. All except `schedule` have a default.

    Example:
        >>> from perfatlas.serving.policies import find_policy
        >>> find_policy("sglang", "decode").idle_passes
        3
    """

    # Value of `SchedulerLimits.rules` that selects it; rows of different roles may share one
    name: str
    title: str  # Name of the scheduler in messages
    description: str  # How it schedules, as a sentence
    roles: tuple[str, ...] = ("both",)  # Phases of a request that its engines serve, of `ROLES`
    reads: frozenset[str] = frozenset()  # Limits that this scheduler reads and some others do not
    # Limits that must have this value in a pool, by role
    fixed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    requires_chunks: bool = False  # Prompts that do not fit always run in chunks
    chunks_whole_blocks: bool = False  # A truncated chunk is a multiple of the block size
    reserves_blocks: bool = False  # A starting request reserves all blocks it will ever need
    # With asynchronous scheduling, sequences that end in the running step are known; otherwise they
    # decode once more
    foresees_ends: bool = True
    # Full blocks of a prompt enter the prefix cache when they are scheduled; otherwise when the
    # whole prompt is computed
    shares_scheduled: bool = False
    # With prefix caching, blocks without cached content are allocated before those with a cached
    # prefix
    reuses_unnamed: bool = False
    # With pipeline stages, the next chunk of a prompt may start while the one before it is in
    # flight
    overlaps_chunks: bool = False
    # With pipeline stages, `max_num_seqs` is divided by the batches in flight
    divides_sequences: bool = False
    # (drafts, ahead): slots that a decoding sequence has from its last computed token on, for the
    # tokens of a step and drafts after it, with asynchronous scheduling or without; not compiled
    decode_slots: Callable[[int, bool], int] = one_step_of_drafts
    idle_passes: int = 1  # Scheduling passes of an idle engine at the same time
    # (sim, s, now): schedules the step of scheduler s that starts at `now` [ps]: admits requests,
    # runs chunks, allocates blocks, preempts
    schedule: Callable[..., Any]
    # (sim, i): queues an arrived request; returns whether the scheduler must see it at the next end
    # of a step
    enqueue: Callable[..., Any] = append_to_queue
    # (sim, s): maximum number of steps that may follow a decode-only step without checking the
    # queue; `UNLIMITED_STEPS` for any number
    steady_steps: Callable[..., Any] = always_steady
    # (sim, i): a decoding request has got its last token
    on_last_token: Callable[..., Any] = do_nothing
    # (sim, s): an engine without a running step found nothing to run
    on_idle: Callable[..., Any] = do_nothing
    # (sim, i, tokens): whether an empty KV cache could hold a request with this number of prompt
    # and output tokens until its end
    can_hold: Callable[..., Any] = fits_in_cache
