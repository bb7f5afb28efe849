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

With overlap scheduling, finished sequences are not known when the next step is scheduled, so a
sequence decodes once more after its last token. A retracted one loses the token of the running
step.

Source: sgl-project/sglang, python/sglang/srt/managers/scheduler.py, get_next_batch_to_run(),
get_new_batch_prefill(), update_running_batch(), event_loop_overlap(); schedule_policy.py,
PrefillAdder; schedule_batch.py, retract_decode(); new_token_ratio_tracker.py;
scheduler_recv_skipper.py.

Limits: Requests are served in order of arrival (schedule policy fcfs). The prefix cache shares
pages of `block_size` tokens, not single tokens, and evicts the least recently freed page, not
leaves of a tree. max_prefill_tokens beyond `max_num_batched_tokens` (chunked_prefill_size) is not
simulated. A prompt chunk is limited to the free blocks, and the last decoding sequence is
retracted, where the engine would stop or abort.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.config import DECODE, PREFILL
from perfatlas.serving.policies.policy import Policy
from perfatlas.serving.sequences import (
    MANY,
    admit_head,
    blocks,
    preempt_uncached,
    queue_at_socket,
    queue_last,
    receive_all,
    run_chunk,
    unreported_tokens,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

# Defaults of environment.py: SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS,
# SGLANG_RETRACT_DECODE_STEPS, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION.
LEAST_OF_RATIO: Final = 0.14
DECAY_STEPS: Final = 600
RETRACT_STEPS: Final = 20
MOST_EXPECTED: Final = 4096  # output tokens


@part
def schedule_sglang(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        sim: The simulation.
        s: The scheduler.
        now: Start of the step [ps].
    """
    lane = sim.lane_S[s]
    if sim.scheduler_recv_interval > 1:
        _receive(sim, s)
    if sim.role == PREFILL:  # no decoding sequence whose end would free the batch
        lane.full = 0
    if lane.prefilled and lane.partial != NOBODY:
        lane.full = 0
        blocks.cache_tokens(sim, lane.partial, sim.request_N[lane.partial].computed)
    if lane.prefilled and lane.ran and lane.ended > 0:  # they were in the same batch
        lane.full = 0
        lane.ended = 0
    if lane.partial != NOBODY or (lane.waiting > 0 and not lane.full):
        if lane.partial == NOBODY and lane.decoding + lane.ended >= sim.max_num_seqs:
            lane.full = 1
        else:
            _prefill(sim, s, now)
    lane.prefilled = lane.chunks
    if lane.chunks == 0:
        decode_batch(sim, s)
    elif sim.mixed_chunk:
        lane.ended = 0
        if sim.growth_SB[s, -lane.step % sim.block_size] <= lane.free:
            blocks.allocate_steps(sim, s, 1)
            lane.decodes = lane.decoding


@part
def _receive(sim: SimulationState, s: int) -> None:
    """Receive new requests, if enough decode-only steps have passed since the last time."""
    lane = sim.lane_S[s]
    idle = lane.decoding == 0 and lane.ended == 0
    if idle or lane.prefilled or lane.ran == 0:
        lane.read = lane.step
    since = lane.step - lane.read
    if (
        since % sim.scheduler_recv_interval == 0
    ):  # checks in between without new requests are skipped
        lane.read = lane.step
        receive_all(sim, s)


@part
def reset_ratio(sim: SimulationState, s: int) -> None:
    """Reset the new-token ratio of an idle scheduler.

    Args:
        sim: The simulation.
        s: The scheduler.
    """
    lane = sim.lane_S[s]
    lane.ratio = sim.new_token_ratio
    lane.decays = 0


@part
def _ratio(sim: SimulationState, s: int) -> float:
    """Return the fraction of their maximum output that sequences are expected to generate."""
    lane = sim.lane_S[s]
    if lane.decays == 0:
        return float(lane.ratio)
    least = sim.new_token_ratio * LEAST_OF_RATIO
    decay = (sim.new_token_ratio - least) / DECAY_STEPS
    return float(max(lane.ratio - lane.decays * decay, least))


@part
def decode_batch(sim: SimulationState, s: int) -> None:
    """Decode the batch, retracting sequences while blocks are missing.

    Args:
        sim: The simulation.
        s: The scheduler.
    """
    lane = sim.lane_S[s]
    left = lane.ended > 0
    lane.ended = 0
    residue = -lane.step % sim.block_size
    if sim.growth_SB[s, residue] > lane.free:
        while sim.growth_SB[s, residue] > lane.free:
            _retract(sim, s)
        _estimate(sim, s)
        left = True
    elif lane.decoding > 0:
        lane.decays += 1
    if left or lane.decoding == 0:
        lane.full = 0
    blocks.allocate_steps(sim, s, 1)
    lane.decodes = lane.decoding


@part
def output_of(sim: SimulationState, i: int) -> int:
    """Return the known number of output tokens of a sequence.

    Args:
        sim: The simulation.
        i: The decoding request.
    """
    request = sim.request_N[i]
    lane = sim.lane_S[request.lane]
    return int(request.osl - (request.finish - lane.step) - unreported_tokens(sim, i))


@part
def _retract(sim: SimulationState, s: int) -> None:
    """Retract the sequence with the least output; it restarts from the end of the queue."""
    lane = sim.lane_S[s]
    victim = NOBODY
    least = 0
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            output = output_of(sim, i)
            longer = victim != NOBODY and sim.request_N[i].isl > sim.request_N[victim].isl
            if victim == NOBODY or output < least or (output == least and longer):
                victim = i
                least = output
        i = sim.request_N[i].before
    preempt_uncached(sim, victim)
    request = sim.request_N[victim]
    request.generated -= unreported_tokens(sim, victim)
    if request.generated == 0:
        sim.first_token_N[victim] = NOBODY
    if sim.role != DECODE:
        queue_last(sim, victim)
        return
    lane.joiners -= 1 if request.joined > lane.beat else 0
    if lane.retracted == 0:
        lane.retracted_head = victim
    else:
        sim.request_N[lane.retracted_tail].after = victim
    lane.retracted_tail = victim
    request.after = NOBODY
    lane.retracted += 1


@part
def _estimate(sim: SimulationState, s: int) -> None:
    """Set the ratio to (output so far + some steps) over the maximum output of the batch."""
    lane = sim.lane_S[s]
    given = RETRACT_STEPS * lane.decoding
    most = 1
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            given += output_of(sim, i)
            most += sim.request_N[i].osl
        i = sim.request_N[i].before
    lane.ratio = min(1.0, given / most)
    lane.decays = 0


@part
def _expected(sim: SimulationState, s: int) -> float:
    """Return the tokens that decoding sequences are expected to add."""
    lane = sim.lane_S[s]
    tokens = 0
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            tokens += min(sim.request_N[i].osl - output_of(sim, i), MOST_EXPECTED)
        i = sim.request_N[i].before
    return float(tokens * _ratio(sim, s))


@part
def _prefill(sim: SimulationState, s: int, now: int) -> None:
    """Add prompts to the step: first the partially computed one, then from the queue."""
    lane = sim.lane_S[s]
    size = sim.block_size
    batch = lane.decoding + lane.ended
    mixed = batch if sim.mixed_chunk else 0
    budget = sim.max_num_batched_tokens - mixed
    room = float(lane.free * size - mixed) - _expected(sim, s)
    taken = 0
    if lane.partial != NOBODY:
        i = lane.partial
        chunk = _next_chunk(sim, i, budget, room)
        if chunk <= 0:
            return
        run_chunk(sim, i, chunk)
        taken = 1
        room -= blocks.count(sim, chunk) * size + size
        if lane.partial == NOBODY:
            room -= min(sim.request_N[i].osl, MOST_EXPECTED)
            budget -= blocks.count(sim, chunk) * size
        else:
            budget = 0
    while lane.waiting > 0:
        if batch + taken >= sim.max_num_seqs:
            lane.full = 1
        if lane.full:
            break
        i = lane.waiting_head
        found = blocks.find_cached(sim, i)
        room -= found[1] * size
        charge = _try_one(sim, i, found, (budget, room), now)
        if charge <= 0:
            lane.full = 1 if charge < 0 else lane.full
            break
        taken += 1
        room -= charge
        budget -= blocks.count(sim, sim.request_N[i].computed - found[0] * size) * size
        if room <= 0:
            lane.full = 1
        if room <= 0 or budget <= 0:
            break


@part
def _next_chunk(sim: SimulationState, i: int, budget: int, room: float) -> int:
    """Return the tokens of the next chunk of the partially computed prompt."""
    request = sim.request_N[i]
    most = min(budget, int(room))
    if most <= 0:
        most = budget
    held = blocks.count(sim, request.placed) * sim.block_size - request.placed
    free = sim.lane_S[request.lane].free * sim.block_size
    return int(min(request.isl + request.generated - request.computed, most, free + held))


@part
def _try_one(
    sim: SimulationState, i: int, found: tuple[int, int], left: tuple[int, float], now: int
) -> int:
    """Start the head of the queue if it fits; return its chunk and maximum output in tokens.

    Returns:
        0 if the token budget is exhausted, -1 if the KV cache has no space.
    """
    request = sim.request_N[i]
    size = sim.block_size
    budget, room = left
    chunk = request.isl + request.generated - found[0] * size
    may_give = min(request.osl - request.generated, MOST_EXPECTED)
    if chunk + may_give + size >= room:
        return -1
    may_give = min(request.osl, MOST_EXPECTED)
    if blocks.count(sim, chunk) * size > budget:
        chunk = budget // size * size
        may_give = 0
    if chunk <= 0:
        return 0
    admit_head(sim, i, found, now)
    run_chunk(sim, i, chunk)
    return int(blocks.count(sim, chunk) * size + may_give + size)


@part
def _enqueue(sim: SimulationState, i: int) -> bool:
    """Add a request to the socket, or to the queue if requests are received in every step."""
    lane = sim.lane_S[sim.request_N[i].lane]
    if sim.scheduler_recv_interval > 1:
        opens = lane.unread == 0
        queue_at_socket(sim, i)
    else:
        opens = lane.waiting == 0 and lane.running < sim.max_num_seqs
        queue_last(sim, i)
    return bool(opens)


@part
def _steady_steps(sim: SimulationState, s: int) -> int:
    """Return how many steps may follow before requests are received or the queue is checked."""
    lane = sim.lane_S[s]
    if lane.partial != NOBODY or (lane.waiting > 0 and not lane.full):
        return 1
    if lane.unread == 0:
        return MANY
    if lane.decodes == 0:
        return 1
    since = (lane.step - lane.read) % sim.scheduler_recv_interval
    return int(sim.scheduler_recv_interval - since)


@part
def keep_in_batch(sim: SimulationState, i: int) -> None:
    """Keep a finished sequence in the batch until the next decode step.

    Args:
        sim: The simulation.
        i: The request.
    """
    request = sim.request_N[i]
    lane = sim.lane_S[request.lane]
    if sim.async_scheduling:  # decodes once more if the next step is a decode step
        request.placed += 1 if lane.decodes > 0 else 0
    if sim.async_scheduling or sim.role == DECODE or request.joined != lane.beat:
        lane.ended += 1
    else:
        lane.full = 0


@part
def fits_with_spare_block(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether an empty KV cache holds a request and the extra block it requires.

    Args:
        sim: The simulation.
        i: The request.
        tokens: Tokens of its prompt and output.
    """
    return bool(tokens + sim.block_size < sim.kv_blocks * sim.block_size)


SGLANG: Final = Policy(
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
    idle_passes=2,  # in the first pass, finished sequences leave the batch
    schedule=schedule_sglang,
    enqueue=_enqueue,
    steady_steps=_steady_steps,
    on_last_token=keep_in_batch,
    on_idle=reset_ratio,
    can_hold=fits_with_spare_block,
)
