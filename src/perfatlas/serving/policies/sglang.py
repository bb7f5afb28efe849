"""The SGLang scheduling policy: prefills first, separate from decodes.

Whenever requests wait and the batch is not full, the next step runs prompts, and decodes are
paused, or included with `mixed_chunk`. A request starts if its prompt, its maximum output and one
block fit into the free blocks less what running sequences are expected to need: `new_token_ratio`
of their remaining maximum output. The first request that does not fit makes the batch full until a
sequence leaves it; a finished sequence leaves at the next decode step. The ratio starts at a
configured value, decreases with every decode step, and is re-estimated when blocks run out. Then
the sequences with the least output (ties: the longest prompt) are retracted: they restart from the
end of the queue and their KV cache is freed. A prefill engine runs prompts only and checks its
queue in every step; decode engines have their own policy (`sglang_decode`).

New requests are received once every `scheduler_recv_interval` decode-only steps, and immediately
after a prefill step or when idle.

With overlap scheduling, finished sequences are not known when the next step is scheduled, so they
decode once more after their last token. A retracted one loses the token of the running step.

Source: sgl-project/sglang, python/sglang/srt/managers/scheduler.py, get_next_batch_to_run(),
get_new_batch_prefill(), update_running_batch(), event_loop_overlap(); schedule_policy.py,
PrefillAdder; schedule_batch.py, retract_decode(); new_token_ratio_tracker.py;
scheduler_recv_skipper.py.

Limits: Requests are served in order of arrival (schedule policy fcfs). The prefix cache shares
pages of `block_size` tokens, not single tokens, and evicts the least recently freed page, not
radix tree leaves. max_prefill_tokens beyond `max_num_batched_tokens` is not simulated. A prompt
chunk is limited to the free blocks, and the last decoding sequence retracted, instead of an abort.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.config import DECODE, PREFILL
from perfatlas.serving.policies.policy import BatchingPolicy
from perfatlas.serving.sequences import (
    admit_head,
    allocate_decodes,
    blocks,
    decode_blocks,
    preempt_uncached,
    queue_at_socket,
    queue_last,
    receive_at_interval,
    run_chunk,
    steps_to_receiving,
    unreported_tokens,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

# Defaults of environment.py: SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS,
# SGLANG_RETRACT_DECODE_STEPS, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION.
MIN_RATIO: Final = 0.14
DECAY_STEPS: Final = 600
RETRACT_STEPS: Final = 20
MAX_EXPECTED: Final = 4096  # output tokens


@part
def schedule_sglang(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    if sim.limits.scheduler_recv_interval > 1:
        receive_at_interval(sim, s)
    if sim.role == PREFILL:  # no decoding sequence whose end would free the batch
        scheduler.full = 0
    if scheduler.prefilled and scheduler.partial != NO_INDEX:
        scheduler.full = 0
        blocks.cache_tokens(sim, scheduler.partial, sim.request_N[scheduler.partial].computed)
    if scheduler.prefilled and scheduler.ran and scheduler.ended > 0:  # they were in the same batch
        scheduler.full = 0
        scheduler.ended = 0
    if scheduler.partial != NO_INDEX or (scheduler.waiting > 0 and not scheduler.full):
        if (
            scheduler.partial == NO_INDEX
            and scheduler.decoding + scheduler.ended >= sim.limits.max_num_seqs
        ):
            scheduler.full = 1
        else:
            _prefill(sim, s, now)
    scheduler.prefilled = scheduler.chunks
    if scheduler.chunks == 0:
        decode_batch(sim, s)
    elif sim.limits.mixed_chunk:
        scheduler.ended = 0
        if decode_blocks(sim, s) <= scheduler.free:
            allocate_decodes(sim, s)
            scheduler.decodes = scheduler.decoding


@part
def reset_ratio(sim: SimulationState, s: int) -> None:
    """Reset the new-token ratio of an idle scheduler."""
    scheduler = sim.scheduler_S[s]
    scheduler.ratio = sim.limits.new_token_ratio
    scheduler.decays = 0


@part
def _ratio(sim: SimulationState, s: int) -> float:
    """Return the fraction of their maximum output that sequences are expected to generate."""
    scheduler = sim.scheduler_S[s]
    if scheduler.decays == 0:
        return float(scheduler.ratio)
    least = sim.limits.new_token_ratio * MIN_RATIO
    decay = (sim.limits.new_token_ratio - least) / DECAY_STEPS
    return float(max(scheduler.ratio - scheduler.decays * decay, least))


@part
def decode_batch(sim: SimulationState, s: int) -> None:
    """Decode the batch, retracting sequences while blocks are missing."""
    scheduler = sim.scheduler_S[s]
    left = scheduler.ended > 0
    scheduler.ended = 0
    if decode_blocks(sim, s) > scheduler.free:
        while decode_blocks(sim, s) > scheduler.free:
            _retract(sim, s)
        _estimate(sim, s)
        left = True
    elif scheduler.decoding > 0:
        scheduler.decays += 1
    scheduler.full = 0 if left or scheduler.decoding == 0 else scheduler.full
    allocate_decodes(sim, s)
    scheduler.decodes = scheduler.decoding


@part
def output_of(sim: SimulationState, i: int) -> int:
    """Return the known number of output tokens of a sequence."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    output = request.generated
    if sim.limits.draft_tokens == 0:
        output = request.osl - (request.finish - scheduler.step)
    return int(output - unreported_tokens(sim, i))


@part
def _retract(sim: SimulationState, s: int) -> None:
    """Retract the sequence with the least output; it restarts from the end of the queue."""
    scheduler = sim.scheduler_S[s]
    victim = NO_INDEX
    least = 0
    i = scheduler.running_tail
    while i != NO_INDEX:
        if i != scheduler.partial:
            output = output_of(sim, i)
            longer = victim != NO_INDEX and sim.request_N[i].isl > sim.request_N[victim].isl
            if victim == NO_INDEX or output < least or (output == least and longer):
                victim = i
                least = output
        i = sim.request_N[i].before
    preempt_uncached(sim, victim)
    request = sim.request_N[victim]
    request.generated -= unreported_tokens(sim, victim)
    if request.generated == 0:
        sim.first_token_N[victim] = NO_INDEX
    if sim.role != DECODE:
        queue_last(sim, victim)
        return
    scheduler.joiners -= 1 if request.joined > scheduler.beat else 0
    if scheduler.retracted == 0:
        scheduler.retracted_head = victim
    else:
        sim.request_N[scheduler.retracted_tail].after = victim
    scheduler.retracted_tail = victim
    request.after = NO_INDEX
    scheduler.retracted += 1


@part
def _estimate(sim: SimulationState, s: int) -> None:
    """Set the ratio to (output so far + some steps) over the maximum output of the batch."""
    scheduler = sim.scheduler_S[s]
    token_budget = RETRACT_STEPS * scheduler.decoding
    most = 1
    i = scheduler.running_tail
    while i != NO_INDEX:
        if i != scheduler.partial:
            token_budget += output_of(sim, i)
            most += sim.request_N[i].osl
        i = sim.request_N[i].before
    scheduler.ratio = min(1.0, token_budget / most)
    scheduler.decays = 0


@part
def _expected(sim: SimulationState, s: int) -> float:
    """Return the tokens that decoding sequences are expected to add."""
    scheduler = sim.scheduler_S[s]
    tokens = 0
    i = scheduler.running_tail
    while i != NO_INDEX:
        if i != scheduler.partial:
            tokens += min(sim.request_N[i].osl - output_of(sim, i), MAX_EXPECTED)
        i = sim.request_N[i].before
    return float(tokens * _ratio(sim, s))


@part
def _prefill(sim: SimulationState, s: int, now: int) -> None:
    """Add prompts to the step: first the partially computed one, then from the queue."""
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    batch = scheduler.decoding + scheduler.ended
    mixed = batch if sim.limits.mixed_chunk else 0
    budget = sim.limits.max_num_batched_tokens - mixed
    room = float(scheduler.free * size - mixed) - _expected(sim, s)
    taken = 0
    if scheduler.partial != NO_INDEX:
        i = scheduler.partial
        request = sim.request_N[i]
        most = min(budget, int(room))
        if most <= 0:
            most = budget
        slack = blocks.count(sim, request.placed) * sim.limits.block_size - request.placed
        free = sim.scheduler_S[request.scheduler].free * sim.limits.block_size
        chunk = int(min(request.isl + request.generated - request.computed, most, free + slack))
        if chunk <= 0:
            return
        run_chunk(sim, i, chunk)
        taken = 1
        room -= blocks.count(sim, chunk) * size + size
        if scheduler.partial == NO_INDEX:
            room -= min(sim.request_N[i].osl, MAX_EXPECTED)
            budget -= blocks.count(sim, chunk) * size
        else:
            budget = 0
    while scheduler.waiting > 0:
        if batch + taken >= sim.limits.max_num_seqs:
            scheduler.full = 1
        if scheduler.full:
            break
        i = scheduler.waiting_head
        cached = blocks.find_cached(sim, i)
        room -= cached.idle * size
        charge = _try_head(sim, i, cached, (budget, room), now)
        if charge <= 0:
            scheduler.full = 1 if charge < 0 else scheduler.full
            break
        taken += 1
        room -= charge
        budget -= blocks.count(sim, sim.request_N[i].computed - cached.found * size) * size
        if room <= 0:
            scheduler.full = 1
        if room <= 0 or budget <= 0:
            break


@part
def _try_head(
    sim: SimulationState, i: int, cached: blocks.Cached, left: tuple[int, float], now: int
) -> int:
    """Start the head of the queue if it fits; return the tokens that it may take.

    They are those to load or compute in this step and its maximum output.

    Returns:
        0 if the token budget is exhausted, -1 if the KV cache has no space.
    """
    request = sim.request_N[i]
    size = sim.limits.block_size
    budget, room = left
    chunk = request.isl + request.generated - cached.found * size
    loads = (cached.found - cached.hits) * size
    may_give = min(request.osl - request.generated, MAX_EXPECTED)
    if loads + chunk + may_give + size >= room:
        return -1
    may_give = min(request.osl, MAX_EXPECTED)
    if blocks.count(sim, chunk) * size > budget:
        chunk = budget // size * size
        may_give = 0
    if chunk <= 0:
        return 0
    admit_head(sim, i, cached, now)
    run_chunk(sim, i, chunk)
    return int(loads + blocks.count(sim, chunk) * size + may_give + size)


@part
def _enqueue(sim: SimulationState, i: int) -> bool:
    """Add a request to the socket, or to the queue if requests are received in every step."""
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    if sim.limits.scheduler_recv_interval > 1:
        opens = scheduler.unread == 0
        queue_at_socket(sim, i)
    else:
        opens = scheduler.waiting == 0 and scheduler.running < sim.limits.max_num_seqs
        queue_last(sim, i)
    return bool(opens)


@part
def _steady_steps(sim: SimulationState, s: int) -> int:
    """Return how many steps may follow before requests are received or the queue is checked."""
    scheduler = sim.scheduler_S[s]
    if scheduler.partial != NO_INDEX or (scheduler.waiting > 0 and not scheduler.full):
        return 1
    return steps_to_receiving(sim, s)


@part
def keep_in_batch(sim: SimulationState, i: int) -> None:
    """Keep a finished sequence in the batch until the next decode step."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    once_more = sim.limits.async_scheduling and scheduler.decodes > 0  # if the next step decodes
    if once_more and sim.limits.draft_tokens == 0:
        request.placed += 1
    if sim.limits.async_scheduling or sim.role == DECODE or request.joined != scheduler.beat:
        scheduler.ended += 1
    else:
        scheduler.full = 0


@part
def fits_with_spare_block(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether an empty KV cache holds a request and the extra block it requires."""
    return bool(
        tokens + sim.decode_slots - 1 + sim.limits.block_size
        < sim.limits.kv_blocks * sim.limits.block_size
    )


def slots_of_steps(drafts: int, ahead: bool) -> int:  # noqa: FBT001 - part of the protocol
    """Return the slots of a step, or of two with the overlap scheduler and drafts."""
    return (1 + drafts) * (2 if ahead and drafts else 1)


SGLANG: Final = BatchingPolicy(
    name="sglang",
    title="SGLang",
    description=(
        "requests are scheduled as in SGLang: prefills run before and separate from decodes; a"
        " request starts if the expected output of the others leaves space; sequences with the"
        " shortest outputs are retracted when blocks run out"
    ),
    roles=("both", "prefill"),
    reads=frozenset(("mixed_chunk", "new_token_ratio", "scheduler_recv_interval")),
    requires_chunks=True,
    foresees_ends=False,
    overlaps_chunks=True,
    divides_sequences=True,
    idle_passes=2,  # in the first pass, finished sequences leave the batch
    schedule=schedule_sglang,
    enqueue=_enqueue,
    steady_steps=_steady_steps,
    on_last_token=keep_in_batch,
    on_idle=reset_ratio,
    decode_slots=slots_of_steps,
    can_hold=fits_with_spare_block,
)
