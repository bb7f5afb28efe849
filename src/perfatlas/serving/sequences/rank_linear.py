"""The linear part of a step of attention-data-parallel ranks, which step together.

Experts compute the tokens of all ranks; each rank computes its own in all other layers and waits
for the slowest. A rank without requests runs a dummy step of one token. Where the engine pads all
ranks to the busiest one, each runs its tokens in all layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.compiled import part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.serving.state import SchedulerState, SimulationState


class RankTokens(NamedTuple):
    """Contents of a step of all ranks of a replica."""

    decodes: int  # Decoding sequences of the rank with the most
    all_decodes: int  # Those of all ranks, at least one of each
    tokens: int  # Tokens of the rank with the most
    all_tokens: int  # Those of all ranks, at least one of each
    chunks: int  # Prompt chunks of all ranks


@part
def rank_tokens(sim: SimulationState, first: int) -> RankTokens:
    """Return the contents of the scheduled step of a replica."""
    decodes = 0
    all_decodes = 0
    tokens = 0
    all_tokens = 0
    chunks = 0
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        scheduled = scheduler.decodes * sim.prices.tokens_per_decode + scheduler.tokens
        decodes = max(decodes, scheduler.decodes)
        all_decodes += max(scheduler.decodes, 1)
        tokens = max(tokens, scheduled)
        all_tokens += max(scheduled, 1)
        chunks += scheduler.chunks
    return RankTokens(decodes, all_decodes, tokens, all_tokens, chunks)


@part
def linear_time(sim: SimulationState, step: RankTokens, scheduler: SchedulerState) -> int:
    """Return the linear part of one rank's step [ps]."""
    if step.chunks == 0:
        return decode_linear_time(sim, step, scheduler)
    if _mixed_padded(sim, step):
        return int(sim.prices.mixed_linear_T[step.tokens])
    tokens = scheduler.decodes * sim.prices.tokens_per_decode + scheduler.tokens
    return _linear(
        sim.prices.mixed_linear_T, sim.prices.mixed_experts_T, tokens, step.all_tokens, sim.ranks
    )


@part
def decode_linear_time(sim: SimulationState, step: RankTokens, scheduler: SchedulerState) -> int:
    """Return the linear part of one rank's step without the prompts of all ranks [ps]."""
    if _decode_padded(sim, step):
        return int(sim.prices.decode_linear_B[step.decodes])
    decodes = scheduler.decodes
    return _linear(
        sim.prices.decode_linear_B,
        sim.prices.decode_experts_B,
        decodes,
        step.all_decodes,
        sim.ranks,
    )


@part
def linear_energy(sim: SimulationState, step: RankTokens, scheduler: SchedulerState) -> int:
    """Return the energy of the linear part of one rank's step [nJ]."""
    if step.chunks == 0:
        return decode_linear_energy(sim, step, scheduler)
    linear_T = sim.energy.tables.mixed_linear_T
    if _mixed_padded(sim, step):
        return int(linear_T[step.tokens])
    tokens = scheduler.decodes * sim.prices.tokens_per_decode + scheduler.tokens
    return _linear(linear_T, sim.energy.tables.mixed_experts_T, tokens, step.all_tokens, sim.ranks)


@part
def decode_linear_energy(sim: SimulationState, step: RankTokens, scheduler: SchedulerState) -> int:
    """Return the energy of the linear part of one rank's step without all prompts [nJ]."""
    linear_B = sim.energy.tables.decode_linear_B
    if _decode_padded(sim, step):
        return int(linear_B[step.decodes])
    experts_B = sim.energy.tables.decode_experts_B
    return _linear(linear_B, experts_B, scheduler.decodes, step.all_decodes, sim.ranks)


@part
def _mixed_padded(sim: SimulationState, step: RankTokens) -> bool:
    """Return whether all ranks run the tokens of the busiest one, in a step with prompts."""
    return bool(sim.ranks == 1 or step.tokens <= sim.prices.padded_mixed)


@part
def _decode_padded(sim: SimulationState, step: RankTokens) -> bool:
    """Return whether all ranks run the decodes of the busiest one, in a step without prompts."""
    return bool(
        sim.ranks == 1 or step.decodes * sim.prices.tokens_per_decode <= sim.prices.padded_decode
    )


@part
def _linear(
    linear_X: NDArray[np.int64], experts_X: NDArray[np.int64], tokens: int, total: int, ranks: int
) -> int:
    """Return the linear part of a rank's own work, and of experts at the mean of all ranks."""
    rank = max(tokens, 1)
    mean = total // ranks
    experts = experts_X[mean]
    if total > mean * ranks:
        experts += (experts_X[mean + 1] - experts) * (total - mean * ranks) // ranks
    return int(linear_X[rank] - experts_X[rank] + experts)
