"""Interface between a scheduling policy and the event loop.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfatlas.compiled import part
from perfatlas.serving.sequences import MANY, blocks, queue_last

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.serving.state import SimulationState


@part
def append_to_queue(sim: SimulationState, i: int) -> bool:
    """Append a request to the queue; return whether it may start in the next step.

    Args:
        i: The request, at its scheduler.
    """
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    opens = scheduler.waiting == 0 and scheduler.running < sim.max_num_seqs
    queue_last(sim, i)
    return bool(opens)


@part
def always_steady(sim: SimulationState, s: int) -> int:  # noqa: ARG001 - part of the protocol
    """Return MANY: the head of the queue, if it does not fit now, will not fit later.

    While sequences only decode, free blocks decrease and no sequence leaves.
    """
    return MANY


@part
def do_nothing(sim: SimulationState, place: int) -> None:
    """Do nothing.

    Args:
        place: Index of the request or the scheduler.
    """


@part
def fits_in_cache(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether the KV cache has blocks for all tokens of a request.

    Args:
        tokens: Tokens of its prompt and output.
    """
    return bool(blocks.count(sim, tokens) <= sim.kv_blocks)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A scheduling policy: a row in `POLICIES`.

    Functions are compiled into the event loop, marked `part`, and get the engines of one type as
    `sim`. All except `schedule` have a default.

    Args:
        name: Value of `Limits.rules` that selects it; several rows may share one for different
            roles.
        title: Name of the scheduler in messages.
        description: How it schedules, as a sentence.
        roles: Phases of a request that its engines serve, of `ROLES`.
        reads: Limits that this scheduler reads and some others do not.
        fixed: Limits that must have this value in a pool, by role.
        supports_drafts: Supports speculative decoding.
        supports_offload: Supports cache tiers below the GPU.
        requires_chunks: Prompts that do not fit always run in chunks.
        chunks_whole_blocks: A truncated chunk is a multiple of the block size.
        reserves_blocks: A starting request reserves all blocks it will ever need.
        foresees_ends: With asynchronous scheduling, sequences that end in the running step are
            known; otherwise they decode once more.
        shares_scheduled: Full blocks of a prompt enter the prefix cache when they are scheduled;
            otherwise when the whole prompt is computed.
        reuses_unnamed: With prefix caching, blocks without cached content are allocated before
            those with a cached prefix.
        overlaps_chunks: With pipeline stages, the next chunk of a prompt may start while the one
            before it is in flight.
        divides_sequences: With pipeline stages, `max_num_seqs` is divided by the batches in flight.
        idle_passes: Scheduling passes of an idle engine at the same time.
        schedule: (sim, s, now): schedules the step of scheduler s that starts at `now` [ps]:
            admits requests, runs chunks, allocates blocks, preempts.
        enqueue: (sim, i): queues an arrived request; returns whether the scheduler must see it
            at the next end of a step.
        steady_steps: (sim, s): maximum number of steps that may follow a decode-only step
            without checking the queue; `MANY` for any number.
        on_last_token: (sim, i): a decoding request has got its last token.
        on_idle: (sim, s): an engine without a running step found nothing to run.
        can_hold: (sim, i, tokens): whether an empty KV cache could hold a request with this
            number of prompt and output tokens until its end.

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
    overlaps_chunks: bool = False
    divides_sequences: bool = False
    idle_passes: int = 1
    schedule: Callable[..., Any]
    enqueue: Callable[..., Any] = append_to_queue
    steady_steps: Callable[..., Any] = always_steady
    on_last_token: Callable[..., Any] = do_nothing
    on_idle: Callable[..., Any] = do_nothing
    can_hold: Callable[..., Any] = fits_in_cache
