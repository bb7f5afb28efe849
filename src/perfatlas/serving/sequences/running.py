"""Operations on the sequences of a scheduler common to all policies: start, run, leave.

Sequences run in order of admission. At most one prompt is partially computed, and no prompt is
admitted after it before its end. The steps in which a sequence needs a block follow from its
context modulo the block size, relative to the decode steps of the scheduler.

Shape legend: N requests, S schedulers, B token slots of a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.offload import offload_prompt
from perfatlas.serving.sequences.stages import queue_owner
from perfatlas.serving.sequences.step_time import NEVER, UNLIMITED_STEPS, add_chunk
from perfatlas.serving.state import NO_INDEX, drop, put

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def clear_step(sim: SimulationState, s: int, now: int) -> None:
    """Clear the state of the previous step.

    Args:
        now: Start of the next step [ps].
    """
    scheduler = sim.scheduler_S[s]
    scheduler.start = now
    scheduler.decodes = 0
    scheduler.fresh = 0
    scheduler.chunks = 0
    scheduler.tokens = 0
    scheduler.attention = 0
    scheduler.last = NEVER
    scheduler.attention_energy = 0
    scheduler.last_energy = NEVER
    scheduler.preempted = 0
    scheduler.joiners = 0
    scheduler.moving = 0


@part
def admit_head(sim: SimulationState, i: int, cached: blocks.Cached, now: int) -> None:
    """Start the head of a queue with its cached blocks; there are free ones for those to load.

    Args:
        cached: Leading blocks that need not be computed.
        now: Start of the step [ps].
    """
    request = sim.request_N[i]
    request.scheduler = queue_owner(sim, request.scheduler)
    scheduler = sim.scheduler_S[request.scheduler]
    hits = cached.hits
    if sim.reserves_blocks:
        scheduler.spare -= blocks.reserved_at_end(sim, i) - hits + cached.idle
    if sim.scheduled_N[i] == NO_INDEX:
        sim.scheduled_N[i] = now
        if hits > 0:
            sim.cached_N[i] = hits * sim.limits.block_size
    scheduler.waiting_head = request.after
    scheduler.waiting -= 1
    if scheduler.waiting == 0:
        scheduler.waiting_tail = NO_INDEX
    run_last(sim, i)
    blocks.reference_cached(sim, i, hits)
    if sim.offloads:
        blocks.load_tiers(sim, i, cached, now)


@part
def run_last(sim: SimulationState, i: int) -> None:
    """Append a request to the running ones of its scheduler."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    request.before = scheduler.running_tail
    request.after = NO_INDEX
    if scheduler.running_tail != NO_INDEX:
        sim.request_N[scheduler.running_tail].after = i
    scheduler.running_tail = i
    scheduler.running += 1
    request.order = scheduler.admitted
    scheduler.admitted += 1


@part
def run_chunk(sim: SimulationState, i: int, chunk: int) -> None:
    """Add a prompt chunk, for which there are blocks, to the step."""
    request = sim.request_N[i]
    s = request.scheduler
    scheduler = sim.scheduler_S[s]
    if request.computed + chunk > request.placed:
        blocks.extend(sim, i, request.computed + chunk)
    add_chunk(sim, s, chunk, request.computed)
    scheduler.tokens += chunk
    scheduler.chunks += 1
    request.computed += chunk
    if sim.offloads:
        offload_prompt(sim, i, request.computed)
    if request.computed < request.isl + request.generated:
        scheduler.partial = i
        return
    scheduler.partial = NO_INDEX
    scheduler.fresh += 1


@part
def unreported_tokens(sim: SimulationState, i: int) -> int:
    """Return the tokens of a decoding sequence that the running step produces."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    runs = sim.replica_R[request.scheduler // sim.ranks].steps > 0
    was = request.joined <= scheduler.beat  # rather than joining in the step being scheduled
    produces = runs and was and (scheduler.ran or request.joined == scheduler.beat)
    return int(request.gave) if produces else 0


@part
def has_ended(sim: SimulationState, i: int) -> bool:
    """Return whether the running step is known to produce the last token of a request."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    return bool(sim.foresees_ends and i != scheduler.partial and request.finish <= scheduler.step)


@part
def last_joined(sim: SimulationState, i: int) -> int:
    """Return when a request last started to decode [ps]."""
    joined = sim.first_token_N[i]
    if sim.preempted_N[i] > 0:
        joined = max(joined, sim.loss_N[i].since)
    return int(joined)


@part
def queue_first(sim: SimulationState, i: int) -> None:
    """Add a request to the head of the queue of its scheduler."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    request.after = scheduler.waiting_head
    scheduler.waiting_head = i
    if scheduler.waiting == 0:
        scheduler.waiting_tail = i
    scheduler.waiting += 1


@part
def queue_last(sim: SimulationState, i: int) -> None:
    """Append a request to the queue of its scheduler."""
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    if scheduler.waiting == 0:
        scheduler.waiting_head = i
    else:
        sim.request_N[scheduler.waiting_tail].after = i
    sim.request_N[i].after = NO_INDEX
    scheduler.waiting_tail = i
    scheduler.waiting += 1


@part
def queue_at_socket(sim: SimulationState, i: int) -> None:
    """Queue an arrived request at the socket of its scheduler, to be received later."""
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    if scheduler.unread == 0:
        scheduler.unread_head = i
    else:
        sim.request_N[scheduler.unread_tail].after = i
    sim.request_N[i].after = NO_INDEX
    scheduler.unread_tail = i
    scheduler.unread += 1


@part
def receive_all(sim: SimulationState, s: int) -> None:
    """Receive all requests from the socket into the queue of a scheduler."""
    scheduler = sim.scheduler_S[s]
    if scheduler.unread == 0:
        return
    if scheduler.waiting == 0:
        scheduler.waiting_head = scheduler.unread_head
    else:
        sim.request_N[scheduler.waiting_tail].after = scheduler.unread_head
    scheduler.waiting_tail = scheduler.unread_tail
    scheduler.waiting += scheduler.unread
    scheduler.unread = 0


@part
def receive_at_interval(sim: SimulationState, s: int) -> None:
    """Receive new requests, if enough decode-only steps have passed since the last time."""
    scheduler = sim.scheduler_S[s]
    idle = scheduler.decoding == 0 and scheduler.ended == 0
    if idle or scheduler.prefilled or scheduler.ran == 0:
        scheduler.read = scheduler.step
    since = scheduler.step - scheduler.read
    if since % sim.limits.scheduler_recv_interval == 0:  # checks without new requests are skipped
        scheduler.read = scheduler.step
        receive_all(sim, s)


@part
def steps_to_receiving(sim: SimulationState, s: int) -> int:
    """Return how many decode-only steps may follow before new requests are received."""
    scheduler = sim.scheduler_S[s]
    if scheduler.unread == 0:
        return UNLIMITED_STEPS
    if scheduler.decodes == 0:
        return 1
    since = (scheduler.step - scheduler.read) % sim.limits.scheduler_recv_interval
    return int(sim.limits.scheduler_recv_interval - since)


@part
def leave_running(sim: SimulationState, i: int) -> None:
    """Remove a request from the running list of its scheduler."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    if request.before != NO_INDEX:
        sim.request_N[request.before].after = request.after
    if request.after != NO_INDEX:
        sim.request_N[request.after].before = request.before
    else:
        scheduler.running_tail = request.before
    scheduler.running -= 1


@part
def leave_queue(sim: SimulationState, i: int) -> None:
    """Remove a request from the queue of its scheduler.

    Args:
        i: The request, near the head of the queue unless its replica has failed.
    """
    scheduler = sim.scheduler_S[queue_owner(sim, sim.request_N[i].scheduler)]
    before = NO_INDEX
    at = scheduler.waiting_head
    while at != i:
        before = at
        at = sim.request_N[at].after
    after = sim.request_N[i].after
    scheduler.waiting -= 1
    if before == NO_INDEX:
        scheduler.waiting_head = after
    else:
        sim.request_N[before].after = after
    if scheduler.waiting_tail == i:
        scheduler.waiting_tail = before


@part
def leave_socket(sim: SimulationState, i: int) -> bool:
    """Remove a request from the socket of its scheduler; return whether it was there."""
    scheduler = sim.scheduler_S[queue_owner(sim, sim.request_N[i].scheduler)]
    before = NO_INDEX
    at = scheduler.unread_head
    for _ in range(scheduler.unread):
        after = sim.request_N[at].after
        if at == i:
            scheduler.unread -= 1
            if before == NO_INDEX:
                scheduler.unread_head = after
            else:
                sim.request_N[before].after = after
            if scheduler.unread_tail == i:
                scheduler.unread_tail = before
            return True
        before = at
        at = after
    return False


@part
def take_finishing(sim: SimulationState, s: int) -> int:
    """Stop decoding a request that has its last token, and return it; NO_INDEX if there is none."""
    scheduler = sim.scheduler_S[s]
    if scheduler.heap == 0 or sim.finishing_SH[s, 0].key != scheduler.step:
        return NO_INDEX
    i = sim.finishing_SH[s, 0].item
    drop(sim.finishing_SH[s], sim.request_N, scheduler.heap, 0)
    scheduler.heap -= 1
    request = sim.request_N[i]
    request.computed = request.isl + request.osl - 1
    if sim.limits.draft_tokens == 0:
        request.placed = request.computed
    if sim.reserves_blocks:
        scheduler.spare += blocks.reserved_at_end(sim, i) - blocks.count(sim, request.placed)
    stop_decoding(sim, i)
    return int(i)


@part
def start_decoding(sim: SimulationState, i: int, steps: int) -> None:
    """Start decoding a request whose prompt and next token are computed.

    Args:
        i: The request; the step counter is after the last step of its prompt.
        steps: Remaining decode steps.
    """
    request = sim.request_N[i]
    s = request.scheduler
    scheduler = sim.scheduler_S[s]
    request.finish = scheduler.step + steps
    put(sim.finishing_SH[s], sim.request_N, scheduler.heap, (request.finish, request.order, i))
    scheduler.heap += 1
    request.joined = scheduler.beat
    request.gave = 1
    sim.delay_N[i] -= scheduler.delay
    scheduler.decoding += 1
    scheduler.context += request.computed
    if sim.limits.draft_tokens == 0:
        blocks.join_growth(sim, i)


@part
def stop_decoding(sim: SimulationState, i: int) -> None:
    """Stop decoding a request.

    Args:
        i: The request; `computed` is set to its tokens in the KV cache.
    """
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    sim.delay_N[i] += scheduler.delay
    scheduler.decoding -= 1
    scheduler.context -= request.computed
    if sim.limits.draft_tokens == 0:
        blocks.leave_growth(sim, i)
