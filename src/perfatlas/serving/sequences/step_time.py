"""The time of a step from price tables, as a linear function over a batch of steps.

Successive decode-only steps grow by one key per sequence, so the j-th step takes base + rise j
until the mean context leaves a cell of the table. Ranks that step together take the time of the
slowest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.compiled import part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.serving.state import SchedulerState, SimulationState

UNLIMITED_STEPS: Final = 1 << 40  # more steps than any batch has
NEVER: Final = -(1 << 60)  # ps: below any table entry


class Line(NamedTuple):
    """Step j takes base + rise j [ps], for the first `steps` of them."""

    base: int
    rise: int
    steps: int


@part
def cell(border_K: NDArray[np.int64], value: int) -> int:
    """Return the index of the last breakpoint not above a value.

    Args:
        border_K: Breakpoints in ascending order from 0 (K,).
        value: At least 0.
    """
    low = 0
    high = border_K.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if border_K[middle] <= value:
            low = middle
        else:
            high = middle
    return low


class ChunkPlace(NamedTuple):
    """Place of a prompt chunk in the chunk tables: its cell, and its distances inside."""

    q: int
    p: int
    along: int
    wide: int
    beyond: int
    deep: int


@part
def add_chunk(sim: SimulationState, s: int, queries: int, before: int) -> None:
    """Add the time and energy of a prompt chunk to the step of a scheduler."""
    scheduler = sim.scheduler_S[s]
    q = min(cell(sim.prices.queries_Q, queries), sim.prices.queries_Q.shape[0] - 2)
    p = min(cell(sim.prices.before_P, before), sim.prices.before_P.shape[0] - 2)
    position = ChunkPlace(
        q,
        p,
        queries - sim.prices.queries_Q[q],
        sim.prices.queries_Q[q + 1] - sim.prices.queries_Q[q],
        before - sim.prices.before_P[p],
        sim.prices.before_P[p + 1] - sim.prices.before_P[p],
    )
    scheduler.attention += chunk_value(sim.prices.prefill_added_QP, position)
    scheduler.last = max(scheduler.last, chunk_value(sim.prices.prefill_last_QP, position))
    if sim.energy.rank_gpus > 0:
        shares = (position.along / position.wide, position.beyond / position.deep)
        scheduler.attention_energy += chunk_energy(sim.energy.tables.prefill_added_QP, q, p, shares)
        scheduler.last_energy = max(
            scheduler.last_energy, chunk_energy(sim.energy.tables.prefill_last_QP, q, p, shares)
        )


@part
def chunk_value(table_QP: NDArray[np.int64], position: ChunkPlace) -> int:
    """Return the bilinear interpolation of a chunk table, rounded down in each direction.

    Args:
        table_QP: The table (Q, P) [ps or nJ].
    """
    q, p = position.q, position.p
    near = table_QP[q, p]
    near += (table_QP[q + 1, p] - near) * position.along // position.wide
    far = table_QP[q, p + 1]
    far += (table_QP[q + 1, p + 1] - far) * position.along // position.wide
    return int(near + (far - near) * position.beyond // position.deep)


@part
def chunk_energy(energy_QP: NDArray[np.int64], q: int, p: int, shares: tuple[float, float]) -> int:
    """Return the bilinear interpolation of a chunk table of energy [nJ], in floating point.

    Args:
        energy_QP: The table (Q, P) [nJ].
    """
    along, beyond = shares
    near = energy_QP[q, p] + (energy_QP[q + 1, p] - energy_QP[q, p]) * along
    far = energy_QP[q, p + 1] + (energy_QP[q + 1, p + 1] - energy_QP[q, p + 1]) * along
    return int(near + (far - near) * beyond)


@part
def decode_attention(sim: SimulationState, sequences: int, keys: int, k: int) -> Line:
    """Return decode attention as a linear function up to the end of its table cell.

    Args:
        sequences: Number of sequences, at least 1.
    """
    mean = keys // sequences
    slope = sim.prices.decode_slope_BK[sequences, k]
    past = keys - sequences * sim.prices.context_K[k]
    room = UNLIMITED_STEPS
    if k + 1 < sim.prices.context_K.shape[0]:
        room = sim.prices.context_K[k + 1] - mean
    return Line(sim.prices.decode_base_BK[sequences, k] + slope * past, slope * sequences, room)


@part
def rank_line(sim: SimulationState, scheduler: SchedulerState, linear: int) -> Line:
    """Return the linear time of one rank's step, including host time unless overlapped.

    Args:
        linear: Linear layers of the step [ps].
    """
    base = (
        linear
        + scheduler.attention
        + sim.prices.head_B[scheduler.decodes * sim.prices.tokens_per_decode + scheduler.fresh]
    )
    if scheduler.chunks > 0:
        base += scheduler.last
    rise = 0
    room = UNLIMITED_STEPS
    if scheduler.decodes > 0:
        keys = scheduler.context + scheduler.decodes * sim.prices.tokens_per_decode
        scheduler.cell = cell(sim.prices.context_K, keys // scheduler.decodes)
        line = decode_attention(sim, scheduler.decodes, keys, scheduler.cell)
        scheduler.keyed = line.base
        base += line.base
        rise = line.rise
        room = line.steps
    if scheduler.chunks > 0:
        base += _wait_for_tiers(sim, scheduler.moving, base)
    if not sim.prices.host_overlapped:
        base += host_work(sim, scheduler)
    return Line(base, rise, room)


@part
def split_line(
    sim: SimulationState, scheduler: SchedulerState, line: Line, ranks: tuple[int, int]
) -> Line:
    """Return the time of a rank whose micro-batches alternate between two machines.

    The first of them passes both machines; from then on the slowest machine or network sets the
    period. Beside prompts they are attended to one after another.

    Args:
        line: The time with one micro-batch.
        ranks: Prompt chunks of all ranks, and sequences of a rank in their mean.
    """
    chunks, mean = ranks
    passes = micro_batches(sim, scheduler)
    if chunks > 0:
        return Line(line.base + (passes - 1) * scheduler.keyed, line.rise, 1)
    if scheduler.decodes > 0:
        base = sim.prices.decode_turns_B[scheduler.decodes] + passes * scheduler.keyed
        if not sim.prices.host_overlapped:
            base += host_work(sim, scheduler)
        line = longest(line, Line(base, passes * line.rise, line.steps))
    return longest(line, Line(sim.prices.decode_away_B[mean], 0, UNLIMITED_STEPS))


@part
def micro_batches(sim: SimulationState, scheduler: SchedulerState) -> int:
    """Return the micro-batches of the decoding sequences of a rank, at least 1."""
    if scheduler.decodes == 0:
        return 1
    return int(-(-scheduler.decodes // -(-scheduler.decodes // sim.prices.micro_batches)))


@part
def _wait_for_tiers(sim: SimulationState, moving: int, computing: int) -> int:
    """Return how long a step waits for copies, which may overlap with the layers before [ps].

    Args:
        moving: Time of all copies of the step [ps].
        computing: Time of the step without them [ps].
    """
    if sim.limits.load_layers == 0:
        return moving
    before = computing * (sim.limits.load_layers - 1) // sim.limits.load_layers
    return int(max(moving - before, moving // sim.limits.load_layers))


@part
def decode_time(sim: SimulationState, scheduler: SchedulerState, linear: int) -> int:
    """Return the time of one rank's step without its prompts [ps].

    Args:
        linear: Linear layers of the step without prompts [ps].
    """
    device = decode_kernels(sim, scheduler, linear)
    host = sim.prices.host_step + sim.prices.host_sequence * scheduler.decodes
    return int(max(device, host) if sim.prices.host_overlapped else device + host)


@part
def decode_kernels(sim: SimulationState, scheduler: SchedulerState, linear: int) -> int:
    """Return the part of `decode_time` in which kernels run [ps].

    Args:
        scheduler: A scheduler with a priced step.
        linear: Linear layers of the step without prompts [ps].
    """
    device = linear + sim.prices.head_B[scheduler.decodes * sim.prices.tokens_per_decode]
    if scheduler.decodes > 0:
        device += scheduler.keyed
    if scheduler.decodes > 0 and sim.prices.micro_batches > 1:
        attention = micro_batches(sim, scheduler) * scheduler.keyed
        device = max(device, sim.prices.decode_turns_B[scheduler.decodes] + attention)
    return int(device)


@part
def host_work(sim: SimulationState, scheduler: SchedulerState) -> int:
    """Return the host time of one rank's step [ps]."""
    work = sim.prices.host_step + sim.prices.host_sequence * (scheduler.decodes + scheduler.chunks)
    if scheduler.chunks > 0:
        work += sim.prices.host_prefill
    return int(work)


@part
def longest(line: Line, other: Line) -> Line:
    """Return the line that is higher at the start, limited to the steps where it is higher."""
    above = line
    below = other
    if other.base > line.base or (other.base == line.base and other.rise > line.rise):
        above = other
        below = line
    steps = min(above.steps, below.steps)
    if below.rise > above.rise:
        steps = min(steps, (above.base - below.base) // (below.rise - above.rise) + 1)
    return Line(above.base, above.rise, steps)


@part
def batch_time(base: int, rise: int, steps: int) -> int:
    """Return the total time of the first steps of a line [ps].

    Args:
        base: Time of the first step [ps].
        rise: Increase per step [ps].
    """
    return steps * base + rise * (steps * (steps - 1) // 2)


@part
def steps_until(base: int, rise: int, most: int, delay: int) -> int:
    """Return the minimum steps (1 to `most`) that take at least a delay; `most` if none does.

    Args:
        base: Time of the first step [ps].
        rise: Increase per step [ps].
        most: Number of steps of the batch.
        delay: Time to be reached [ps].
    """
    low = 1
    high = most
    while low < high:
        middle = (low + high) >> 1
        if batch_time(base, rise, middle) >= delay:
            high = middle
        else:
            low = middle + 1
    return low
