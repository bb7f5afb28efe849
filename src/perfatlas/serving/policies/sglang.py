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
    give_up,
    leave_unread,
    queue_last,
    read_all,
    run_chunk,
    unseen,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World

# Defaults of environment.py: SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS,
# SGLANG_RETRACT_DECODE_STEPS, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION.
LEAST_OF_RATIO: Final = 0.14
DECAY_STEPS: Final = 600
RETRACT_STEPS: Final = 20
MOST_EXPECTED: Final = 4096  # output tokens


@part
def schedule_sglang(world: World, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        world: The simulation.
        s: The scheduler.
        now: Start of the step [ps].
    """
    lane = world.lane_S[s]
    if world.scheduler_recv_interval > 1:
        _receive(world, s)
    if world.role == PREFILL:  # no decoding sequence whose end would free the batch
        lane.full = 0
    if lane.prefilled and lane.partial != NOBODY:
        lane.full = 0
        blocks.keep_known(world, lane.partial, world.request_N[lane.partial].computed)
    if lane.prefilled and lane.ran and lane.ended > 0:  # they were in the same batch
        lane.full = 0
        lane.ended = 0
    if lane.partial != NOBODY or (lane.waiting > 0 and not lane.full):
        if lane.partial == NOBODY and lane.decoding + lane.ended >= world.max_num_seqs:
            lane.full = 1
        else:
            _prefill(world, s, now)
    lane.prefilled = lane.chunks
    if lane.chunks == 0:
        decode_batch(world, s)
    elif world.mixed_chunk:
        lane.ended = 0
        if world.growth_SB[s, -lane.step % world.block_size] <= lane.free:
            blocks.grow(world, s, 1)
            lane.decodes = lane.decoding


@part
def _receive(world: World, s: int) -> None:
    """Receive new requests, if enough decode-only steps have passed since the last time."""
    lane = world.lane_S[s]
    idle = lane.decoding == 0 and lane.ended == 0
    if idle or lane.prefilled or lane.ran == 0:
        lane.read = lane.step
    since = lane.step - lane.read
    if (
        since % world.scheduler_recv_interval == 0
    ):  # checks in between without new requests are skipped
        lane.read = lane.step
        read_all(world, s)


@part
def forget_ratio(world: World, s: int) -> None:
    """Reset the new-token ratio of an idle scheduler.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    lane = world.lane_S[s]
    lane.ratio = world.new_token_ratio
    lane.decays = 0


@part
def _ratio(world: World, s: int) -> float:
    """Return the fraction of their maximum output that sequences are expected to generate."""
    lane = world.lane_S[s]
    if lane.decays == 0:
        return float(lane.ratio)
    least = world.new_token_ratio * LEAST_OF_RATIO
    decay = (world.new_token_ratio - least) / DECAY_STEPS
    return float(max(lane.ratio - lane.decays * decay, least))


@part
def decode_batch(world: World, s: int) -> None:
    """Decode the batch, retracting sequences while blocks are missing.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    lane = world.lane_S[s]
    left = lane.ended > 0
    lane.ended = 0
    residue = -lane.step % world.block_size
    if world.growth_SB[s, residue] > lane.free:
        while world.growth_SB[s, residue] > lane.free:
            _retract(world, s)
        _estimate(world, s)
        left = True
    elif lane.decoding > 0:
        lane.decays += 1
    if left or lane.decoding == 0:
        lane.full = 0
    blocks.grow(world, s, 1)
    lane.decodes = lane.decoding


@part
def output_of(world: World, i: int) -> int:
    """Return the known number of output tokens of a sequence.

    Args:
        world: The simulation.
        i: The decoding request.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    return int(request.osl - (request.finish - lane.step) - unseen(world, i))


@part
def _retract(world: World, s: int) -> None:
    """Retract the sequence with the least output; it restarts from the end of the queue."""
    lane = world.lane_S[s]
    victim = NOBODY
    least = 0
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            output = output_of(world, i)
            longer = victim != NOBODY and world.request_N[i].isl > world.request_N[victim].isl
            if victim == NOBODY or output < least or (output == least and longer):
                victim = i
                least = output
        i = world.request_N[i].before
    give_up(world, victim)
    request = world.request_N[victim]
    request.generated -= unseen(world, victim)
    if request.generated == 0:
        world.first_token_N[victim] = NOBODY
    if world.role != DECODE:
        queue_last(world, victim)
        return
    lane.joiners -= 1 if request.joined > lane.beat else 0
    if lane.retracted == 0:
        lane.retracted_head = victim
    else:
        world.request_N[lane.retracted_tail].after = victim
    lane.retracted_tail = victim
    request.after = NOBODY
    lane.retracted += 1


@part
def _estimate(world: World, s: int) -> None:
    """Set the ratio to (output so far + some steps) over the maximum output of the batch."""
    lane = world.lane_S[s]
    given = RETRACT_STEPS * lane.decoding
    most = 1
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            given += output_of(world, i)
            most += world.request_N[i].osl
        i = world.request_N[i].before
    lane.ratio = min(1.0, given / most)
    lane.decays = 0


@part
def _expected(world: World, s: int) -> float:
    """Return the tokens that decoding sequences are expected to add."""
    lane = world.lane_S[s]
    tokens = 0
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            tokens += min(world.request_N[i].osl - output_of(world, i), MOST_EXPECTED)
        i = world.request_N[i].before
    return float(tokens * _ratio(world, s))


@part
def _prefill(world: World, s: int, now: int) -> None:
    """Add prompts to the step: first the partially computed one, then from the queue."""
    lane = world.lane_S[s]
    size = world.block_size
    batch = lane.decoding + lane.ended
    mixed = batch if world.mixed_chunk else 0
    budget = world.max_num_batched_tokens - mixed
    room = float(lane.free * size - mixed) - _expected(world, s)
    taken = 0
    if lane.partial != NOBODY:
        i = lane.partial
        chunk = _next_chunk(world, i, budget, room)
        if chunk <= 0:
            return
        run_chunk(world, i, chunk)
        taken = 1
        room -= blocks.count(world, chunk) * size + size
        if lane.partial == NOBODY:
            room -= min(world.request_N[i].osl, MOST_EXPECTED)
            budget -= blocks.count(world, chunk) * size
        else:
            budget = 0
    while lane.waiting > 0:
        if batch + taken >= world.max_num_seqs:
            lane.full = 1
        if lane.full:
            break
        i = lane.waiting_head
        found = blocks.hits(world, i)
        room -= found[1] * size
        charge = _try_one(world, i, found, (budget, room), now)
        if charge <= 0:
            lane.full = 1 if charge < 0 else lane.full
            break
        taken += 1
        room -= charge
        budget -= blocks.count(world, world.request_N[i].computed - found[0] * size) * size
        if room <= 0:
            lane.full = 1
        if room <= 0 or budget <= 0:
            break


@part
def _next_chunk(world: World, i: int, budget: int, room: float) -> int:
    """Return the tokens of the next chunk of the partially computed prompt."""
    request = world.request_N[i]
    most = min(budget, int(room))
    if most <= 0:
        most = budget
    held = blocks.count(world, request.placed) * world.block_size - request.placed
    free = world.lane_S[request.lane].free * world.block_size
    return int(min(request.isl + request.generated - request.computed, most, free + held))


@part
def _try_one(
    world: World, i: int, found: tuple[int, int], left: tuple[int, float], now: int
) -> int:
    """Start the head of the queue if it fits; return its chunk and maximum output in tokens.

    Returns:
        0 if the token budget is exhausted, -1 if the KV cache has no space.
    """
    request = world.request_N[i]
    size = world.block_size
    budget, room = left
    chunk = request.isl + request.generated - found[0] * size
    may_give = min(request.osl - request.generated, MOST_EXPECTED)
    if chunk + may_give + size >= room:
        return -1
    may_give = min(request.osl, MOST_EXPECTED)
    if blocks.count(world, chunk) * size > budget:
        chunk = budget // size * size
        may_give = 0
    if chunk <= 0:
        return 0
    admit_head(world, i, found, now)
    run_chunk(world, i, chunk)
    return int(blocks.count(world, chunk) * size + may_give + size)


@part
def _enqueue(world: World, i: int) -> bool:
    """Add a request to the socket, or to the queue if requests are received in every step."""
    lane = world.lane_S[world.request_N[i].lane]
    if world.scheduler_recv_interval > 1:
        opens = lane.unread == 0
        leave_unread(world, i)
    else:
        opens = lane.waiting == 0 and lane.running < world.max_num_seqs
        queue_last(world, i)
    return bool(opens)


@part
def _steady_steps(world: World, s: int) -> int:
    """Return how many steps may follow before requests are received or the queue is checked."""
    lane = world.lane_S[s]
    if lane.partial != NOBODY or (lane.waiting > 0 and not lane.full):
        return 1
    if lane.unread == 0:
        return MANY
    if lane.decodes == 0:
        return 1
    since = (lane.step - lane.read) % world.scheduler_recv_interval
    return int(world.scheduler_recv_interval - since)


@part
def keep_in_batch(world: World, i: int) -> None:
    """Keep a finished sequence in the batch until the next decode step.

    Args:
        world: The simulation.
        i: The request.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    if world.async_scheduling:  # decodes once more if the next step is a decode step
        request.placed += 1 if lane.decodes > 0 else 0
    if world.async_scheduling or world.role == DECODE or request.joined != lane.beat:
        lane.ended += 1
    else:
        lane.full = 0


@part
def starts_alone(world: World, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether an empty KV cache holds a request and the extra block it requires.

    Args:
        world: The simulation.
        i: The request.
        tokens: Tokens of its prompt and output.
    """
    return bool(tokens + world.block_size < world.kv_blocks * world.block_size)


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
    on_idle=forget_ratio,
    can_hold=starts_alone,
)
