"""What runs at the same time on a replica: sequences, micro-batches, chunks of prompts.

Requests reach every rank, so that prompts of some ranks meet decodes of the others. A step takes
the time of its busiest rank: what it computes is an order statistic of the ranks.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import stage_share
from perfatlas.quantities import InfeasibleError
from perfatlas.step import PrefillChunks, padded_batch, prefill_chunks, prefill_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.step import Candidates, Step, StepContext


NEGLIGIBLE: Final = 1e-9  # probability of more prompts at which sums over their number end
MIN_FLOAT: Final = float(np.finfo(np.float64).tiny)  # keeps 0 over 0 at 0


def rejects_prompts(question: Candidates) -> NDArray[np.bool_]:
    """Return whether the engine rejects the prompts, which exceed a step and are not split (C,)."""
    whole_C: NDArray[np.bool_] = question.load.isl > question.limits.max_num_batched_tokens
    return whole_C & (not question.profile.scheduler.chunked_prefill)


def prompt_rejection(question: Candidates, candidate: int = 0) -> InfeasibleError:
    """Return the error of a candidate whose prompts are rejected.

    Args:
        candidate: Index of one that `rejects_prompts`.
    """
    isl, limits = question.load.isl[candidate], question.limits
    enough = isl + limits.max_num_seqs[candidate]
    return InfeasibleError(
        f"{question.profile.id} rejects prompts of {isl:,g} tokens: a step holds at most"
        f" {limits.max_num_batched_tokens[candidate]:,g} (max_num_batched_tokens), and chunked"
        " prefill is off by default",
        advice=(
            "leave max_num_batched_tokens out",
            f"set max_num_batched_tokens = {enough:g}, the prompt and max_num_seqs",
        ),
    )


def max_decodes(question: Candidates) -> FloatArray:
    """Return the sequences of a rank that may run when a prompt starts, and it itself (C,).

    A prompt that is not split starts only in a step that holds it whole beside the decodes.
    """
    if question.profile.scheduler.chunked_prefill:
        return np.full(question.load.isl.shape, np.inf)
    new_C = question.load.isl - question.load.prefix
    left_C = (question.limits.max_num_batched_tokens - new_C) / (1.0 + question.drafts)
    running_C: FloatArray = 1.0 + np.maximum(np.floor(left_C), 0.0)
    return running_C


def prompt_room(question: Candidates, unused: FloatArray) -> FloatArray:
    """Return the tokens of prompts that a full step computes (C,).

    A step of an engine that does not split prompts has room for one in any case, as the padding of
    its decodes does not count against the limit; those of a static batch hold whole prompts alone.

    Args:
        unused: Tokens of a step that its decodes leave (C,).

    Limits: With continuous batching, steps of any engine hold a mean number of prompts, which need
        not be whole.
    """
    if question.profile.scheduler.chunked_prefill:
        return unused
    new_C = question.load.isl - question.load.prefix
    whole_C = np.maximum(np.floor(unused / new_C), 1.0) * new_C
    room_C: FloatArray = np.where(question.aggregated_C, np.maximum(unused, new_C), whole_C)
    return room_C


class RankPrompts(NamedTuple):
    """Prompts of a step in which any rank computes some."""

    # Prompts of the busiest rank, at least 1, or 1 where they take several steps (C,)
    most: FloatArray
    # Prompts of all ranks over those of the busiest, from 1 to the number of ranks (C,)
    ranks: FloatArray
    rank_share: FloatArray  # Probability that a given rank computes prompts in such a step (C,)


def spread_prompts(
    starting: FloatArray, slots: FloatArray, ranks: FloatArray, *, alternates: bool
) -> RankPrompts:
    """Return the prompts of the steps with prompts, where equal requests are evenly spread.

    Clients whose requests have equal lengths keep their distance: R `starting` prompts start in
    each step, of which each goes to another rank, or one in every few steps. Where a rank computes
    prompts in steps of their own, as many start in each of its decode steps.

    Args:
        starting: As for `rank_prompts` (C,).
        slots: As for `rank_prompts` (C,).
        ranks: Attention-data-parallel ranks (C,).
        alternates: Whether a rank computes either prompts or decodes in a step.

    Source: derived; the phases of clients as in `method simulate`.
    """
    per_rank = starting / (1.0 + np.minimum(starting, 1.0)) if alternates else starting
    most = np.clip(starting, 1.0, np.maximum(slots, 1.0))
    together = np.clip(ranks * per_rank / most, 1.0, ranks)
    return RankPrompts(most, together, together / ranks)


def rank_prompts(
    starting: FloatArray, slots: FloatArray, ranks: FloatArray, *, alternates: bool
) -> RankPrompts:
    """Return the prompts of the steps with prompts, where requests end independently.

    A step of one rank has room for c prompts, or for a part of one (c = 1). Each slot is taken with
    probability `starting` / c: K, the prompts of a rank, is binomial, which is Poisson where c is
    large, and loses none of the work where c is 1. With R ranks the step has prompts with
    probability q = 1 - P(K = 0)^R; its busiest rank then computes the sum over k of
    (1 - P(K <= k)^R) / q prompts, and all ranks together R E[K] / q.

    Where prompts run in steps of their own, a rank prefills after each decode step in which any
    start: in p / (1 + p) of its steps, with p = P(K > 0).

    Args:
        starting: Mean prompts, or steps of prompts, that start on a rank per decode step (C,).
        slots: Prompts that fit into a step beside its decodes, at least 1; rounded down (C,).
        ranks: Attention-data-parallel ranks (C,).
        alternates: Whether a rank computes either prompts or decodes in a step.

    Source: derived; the maximum of R independent values has the distribution function F^R.

    Limits: Ranks are independent, though requests that end together start together, and routing to
        the rank with the fewest requests evens them out.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.running_load import rank_prompts
        >>> one = np.ones(1)
        >>> spread = rank_prompts(0.5 * one, one, 2 * one, alternates=False)
        >>> tuple(round(float(column[0]), 4) for column in spread)
        (1.0, 1.3333, 0.6667)
    """
    slots = np.floor(np.maximum(slots, 1.0))
    taken = starting / slots
    tails = _tails(np.minimum(taken, 1.0), slots)
    some = tails[0]
    share = 1.0 / (1.0 + np.maximum(some, taken)) if alternates else np.ones_like(taken)
    mean = share * sum(tails)
    highest = sum(1.0 - (1.0 - share * more) ** ranks for more in tails)
    busy = 1.0 - (1.0 - share * some) ** ranks
    active = busy > 0.0
    safe = np.where(active, busy, 1.0)
    most = np.where(active, np.maximum(highest / safe, 1.0), 1.0)
    together = np.where(active, ranks * mean / safe / most, 1.0)
    given_rank = np.where(active, share * some / safe, 1.0)
    return RankPrompts(most, np.clip(together, 1.0, ranks), np.minimum(given_rank, 1.0))


class HeldPrompts(NamedTuple):
    """Prompts that wait for those of other ranks and then run in the same step."""

    number: FloatArray  # Mean prompts of such a step, from 1 to the number of ranks (C,)
    wait_steps: FloatArray  # Mean steps that each of them waits (C,)


def held_prompts(
    rate: FloatArray, iters: FloatArray, ranks: FloatArray, share: FloatArray
) -> HeldPrompts:
    """Return the prompts of a step, where they wait until every rank has one, and their wait.

    Prompts arrive at random. A step runs them when there is one for each of R ranks, when T steps
    have passed since the last step with prompts, or when one comes to a rank that decodes nothing,
    as all but a share h do; where none has come after T steps, the next one runs at once. With
    N arrivals in T steps, k prompts wait for h^k P(N > k) / rate steps of a cycle, so that the
    mean number is n = P(N = 0) + sum over k < R of h^k P(N > k), and by renewal the mean wait is
    (sum over k < R of k h^k P(N > k)) / (n rate).

    Args:
        rate: Prompts of all ranks per decode step (C,).
        iters: Maximum steps from one step with prompts to the next, T (C,).
        ranks: Attention-data-parallel ranks, R (C,).
        share: Share of prompts that come to a rank which decodes other requests, h (C,).

    Source: derived; the rule is that of `serving.engine.balance`.

    Limits: Each prompt is for a rank without one, as the router prefers ranks with few requests;
        where several come to one rank before all have one, the wait is longer. Equal requests of
        a closed loop that once start together end together, and wait less.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.running_load import held_prompts
        >>> one = np.ones(1)
        >>> rare = held_prompts(0.05 * one, 60 * one, 16 * one, one)  # about half of 60 steps
        >>> round(float(rare.number[0]), 2), round(float(rare.wait_steps[0]), 1)
        (3.05, 29.5)
        >>> often = held_prompts(2.0 * one, 60 * one, 16 * one, one)  # 0 to 15 steps of half a one
        >>> float(often.number[0]), float(often.wait_steps[0])
        (16.0, 3.75)
    """
    mean = rate * iters
    log_mean = np.log(np.maximum(mean, MIN_FLOAT))
    log_chance, still = -mean, np.ones_like(mean)
    none = np.exp(log_chance)
    more = 1.0 - none
    number, waiting = none.copy(), np.zeros_like(mean)
    for k in range(int(ranks.max(initial=0.0))):
        counted = np.where(k < ranks, still * np.maximum(more, 0.0), 0.0)
        number += counted
        waiting += k * counted
        still = still * share
        log_chance = log_chance + log_mean - np.log(k + 1.0)
        more = more - np.exp(np.minimum(log_chance, 0.0))
    return HeldPrompts(number, waiting / np.maximum(rate, MIN_FLOAT) / number)


def _tails(taken: FloatArray, slots: FloatArray) -> list[FloatArray]:
    """Return P(K > k) of a binomial number of slots for k = 0, 1, ... until all are negligible.

    Args:
        taken: Probability that a slot is taken (C,).
        slots: Number of slots, whole (C,).
    """
    full = taken >= 1.0
    free = np.where(full, 1.0, 1.0 - taken)
    odds = np.log(np.maximum(taken, MIN_FLOAT)) - np.log(free)
    log_chance = slots * np.log(free)
    more = 1.0 - np.exp(log_chance)
    tails: list[FloatArray] = []
    while not tails or np.any(tails[-1] > NEGLIGIBLE):
        k = float(len(tails))
        tails.append(np.where(k < slots, np.where(full, 1.0, np.maximum(more, 0.0)), 0.0))
        log_chance = log_chance + np.log(np.maximum(slots - k, MIN_FLOAT) / (k + 1.0)) + odds
        more = more - np.exp(np.minimum(log_chance, 0.0))
    return tails


class Among(NamedTuple):
    """Requests among which those of one class run."""

    mean_osl: float  # Mean output tokens of all


@dataclass(frozen=True, kw_only=True)
class RunningLoad:
    """What runs at the same time on a replica of each candidate."""

    question: Candidates
    memory: MemoryColumns  # Memory of the rank with the highest usage
    served: FloatArray  # Concurrently running sequences per replica (C,)
    on_rank: FloatArray  # Those of one attention-DP rank (C,)
    micro_batches: FloatArray  # Parts of them, which pipeline stages process at the same time (C,)
    batch: FloatArray  # Sequences of a micro-batch, which one decode step advances (C,)
    chunks: PrefillChunks  # Prefill chunks of the batch (static) or of one request (aggregated)
    # Prompts that are prefilled together (C,). With attention data parallelism and continuous
    # batching, those of the busiest rank in a step with prompts.
    prompts: FloatArray
    # Attention-DP ranks with as many prompts that have those of all at that time (C,)
    busy_ranks: FloatArray
    # Probability that a step with prompts computes some of a given sequence's rank (C,), 1 for one
    # rank
    own_share: FloatArray
    # Whether attention-DP ranks compute prompts in different steps (C,). Those of clients with
    # equal requests run the same steps if they start together, or are held until all ranks have a
    # prompt.
    staggered: NDArray[np.bool_]
    held_steps: FloatArray  # Mean steps that a prompt waits for those of other ranks (C,)
    # Share of the decode steps that also prefill (C,), above 1 where the last chunk of a prompt
    # shares its step with the next prompt; 0 in static mode
    mixed_steps: FloatArray
    # Whether prompts start at even intervals, as those of equal requests do (C,)
    evenly: NDArray[np.bool_]

    def decoding(self) -> tuple[FloatArray, FloatArray]:
        """Return the sequences of a decode step and their mean number of keys, each (C,)."""
        load = self.question.load
        return self.batch, load.isl + load.osl / 2.0

    @cached_property
    def stage_share(self) -> FloatArray:
        """Share of all layers in the slowest pipeline stage, 1 without stages (C,)."""
        return stage_share(self.question.model.network, self.question.plan)

    @property
    def together(self) -> FloatArray:
        """Sequences that wait for each other's prompts (C,): those of all ranks, or of each."""
        sequences_C: FloatArray = np.where(self.staggered, self.served, self.on_rank)
        return sequences_C

    def concurrent_decode_share(self) -> FloatArray:
        """Return the part of a step with prompts that its decodes would take without them (C,).

        All of it where decodes share the steps; otherwise that of ranks without a prompt.
        """
        share_C: FloatArray = np.where(self.mixed(), 1.0, 1.0 - self.own_share)
        return share_C

    def working_share(self) -> FloatArray:
        """Return the attention-DP ranks that compute a chunk, with its padding, over all (C,)."""
        ranks_C = self.question.plan.attention_dp
        padded_C = self.chunks.tokens.all <= self.question.profile.scheduler.padded_tokens.mixed
        share_C: FloatArray = np.where(padded_C | (ranks_C == 1), 1.0, self.busy_ranks / ranks_C)
        return share_C

    def mixed(self) -> NDArray[np.bool_]:
        """Return whether prefill chunks share their steps with decodes (C,)."""
        question = self.question
        shared_C: NDArray[np.bool_] = question.aggregated_C & (self.on_rank > 1)
        return shared_C & question.profile.scheduler.mixes

    def opening(self) -> RunningLoad | None:
        """Return the prompts of clients that start together, None if no candidate has such clients.

        The first prompt is prefilled alone, as the others arrive during its step. If steps are
        shared, on average half of the clients decode while the others are prefilled.
        """
        question = self.question
        if not np.any(question.aggregated_C & np.isfinite(question.load.rounds)):
            return None
        new, budget = (
            question.load.isl - question.load.prefix,
            question.limits.max_num_batched_tokens,
        )
        first_alone = (self.served > 1.0) & (new < budget) & (question.plan.attention_dp == 1)
        prompts = np.where(first_alone, self.on_rank - 1.0, self.on_rank)
        decodes = np.where(self.mixed(), np.floor(self.batch / 2.0), 0.0)
        room = prompt_room(question, np.maximum(budget - decodes, 1.0))
        chunks = _with_decodes(prefill_chunks(prompts, new, question.load.prefix, room), decodes)
        busy_ranks = _all_ranks(question, self.served, self.on_rank)
        return replace(self, chunks=chunks, prompts=prompts, busy_ranks=busy_ranks)

    def prefills(self, context: StepContext) -> list[Step]:
        """Return one full prefill chunk and, if any candidate has one, the smaller last chunk."""
        steps = [prefill_work(context, self.chunks.tokens, self.busy_ranks)]
        if np.any(self.chunks.last_count):
            steps.append(prefill_work(context, self.chunks.last_tokens, self.busy_ranks))
        return steps

    def occupied(self) -> FloatArray:
        """Return the tokens of a decode step over those of the graph that runs it (C,)."""
        tokens_C = self.batch * (1.0 + self.question.drafts)
        sizes = self.question.profile.scheduler.graph_sizes
        share_C: FloatArray = tokens_C / padded_batch(tokens_C, sizes)
        return share_C


def running_load(
    question: Candidates, memory: MemoryColumns, among: Among | None = None
) -> RunningLoad:
    """Return what runs at the same time on a replica of each candidate.

    Args:
        among: Requests of other lengths beside which they run, None if all are equal: the load is
            then all served.
    """
    if among is None:
        admitted = served_sequences(question, memory)
        served = np.where(question.aggregated_C, admitted, question.load.sequences)
    else:
        served = question.load.sequences
    osl = question.load.osl if among is None else np.full_like(served, among.mean_osl)
    equal = (question.load.osl_spread == 0.0) & (among is None)
    alike = equal & (np.isfinite(question.load.rounds) | _gathered(question, served, osl))
    staggered = question.aggregated_C & (question.plan.attention_dp > 1) & ~alike
    # pipeline stages process different micro-batches at the same time
    on_rank = np.ceil(served / question.plan.attention_dp)
    micro_batches = np.minimum(question.plan.pp, on_rank)
    batch = np.ceil(on_rank / micro_batches)
    chunks, prompts = _chunks(question, (served, on_rank, batch), osl, (staggered, equal))
    # of the prompts that start while a request decodes
    number, steps = chunks.count + chunks.last_count, question.load.osl / question.tokens_per_step
    others = np.where(staggered, served, on_rank) - 1.0
    prompts_together = prompts.most * np.where(staggered, prompts.ranks, 1.0)
    mixed_steps = number * others / (prompts_together * steps) * question.aggregated_C
    return RunningLoad(
        question=question,
        memory=memory,
        served=served,
        on_rank=on_rank,
        micro_batches=micro_batches,
        batch=batch,
        chunks=chunks,
        prompts=prompts.most,
        busy_ranks=prompts.ranks,
        own_share=prompts.rank_share,
        staggered=staggered,
        held_steps=_held_steps(question, steps, staggered, served),
        mixed_steps=mixed_steps,
        evenly=equal,
    )


def _gathered(question: Candidates, served: FloatArray, osl: FloatArray) -> NDArray[np.bool_]:
    """Return whether prompts are held until all ranks have one, before the hold ends (C,).

    Equal requests that once start together then end together, so that they stay so.
    """
    ranks, iters = question.plan.attention_dp, question.limits.rank_balance_iters
    starting = (served - 1.0) * question.tokens_per_step / osl * iters
    gathered_C: NDArray[np.bool_] = (served >= 2.0 * ranks) & (starting >= ranks) & (iters > 0)
    return gathered_C


def _all_ranks(question: Candidates, served: FloatArray, on_rank: FloatArray) -> FloatArray:
    """Return the ranks that have sequences, of which the last may have fewer (C,)."""
    return np.minimum(served / on_rank, question.plan.attention_dp)


def _chunks(
    question: Candidates,
    counts: tuple[FloatArray, FloatArray, FloatArray],
    osl: FloatArray,
    kind: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> tuple[PrefillChunks, RankPrompts]:
    """Return the chunks of prompts that are prefilled together, and the number of prompts.

    A static batch prefills all its prompts. With continuous batching, as many prompts start
    together as sequences end from one read of new requests to the next, (B - 1)/steps per step, at
    least one if any; with attention data parallelism, those of the busiest rank. Engines with mixed
    steps decode all running sequences, padded like a decode step, and fill the rest of the budget
    with prompts.

    Args:
        counts: Sequences of the replica, of a rank and of a micro-batch, each (C,).
        osl: Mean output tokens of all requests (C,).
        kind: Whether ranks compute prompts in different steps, and whether all requests have the
            same lengths, each (C,).
    """
    load, mixes = question.load, question.profile.scheduler.mixes
    served, on_rank, batch = counts
    new, queries = load.isl - load.prefix, 1.0 + question.drafts
    padded = padded_batch(batch * queries, question.profile.scheduler.graph_sizes)
    others = question.aggregated_C & (on_rank > 1)
    decodes = np.where(others & mixes, padded - queries, 0.0)
    unused = np.maximum(question.limits.max_num_batched_tokens - decodes, 1.0)
    room = prompt_room(question, unused)
    reads = question.limits.scheduler_recv_interval
    ending = (on_rank - 1.0) * question.tokens_per_step / osl * reads
    arriving = np.clip(ending, 1.0, np.maximum(room / new, 1.0))
    together = np.where(question.aggregated_C, arriving, on_rank)
    prompts = RankPrompts(together, _all_ranks(question, served, on_rank), np.ones_like(room))
    staggered, equal = kind
    if staggered.any():
        per_rank = (served - 1.0) / question.plan.attention_dp
        ending = per_rank * question.tokens_per_step / osl * reads
        of_ranks = _among_ranks(question, served, (ending, room / new), equal)
        prompts = RankPrompts(
            *(np.where(staggered, a, b) for a, b in zip(of_ranks, prompts, strict=True))
        )
    return _with_decodes(prefill_chunks(prompts.most, new, load.prefix, room), decodes), prompts


def _among_ranks(
    question: Candidates,
    served: FloatArray,
    prompts: tuple[FloatArray, FloatArray],
    equal: NDArray[np.bool_],
) -> RankPrompts:
    """Return the prompts of attention-DP ranks in a step with prompts, beside a given sequence.

    Args:
        served: Sequences of the replica (C,).
        prompts: Prompts that start on a rank per decode step, and prompts that fit into a step
            (C,).
        equal: Whether all requests have the same lengths (C,).
    """
    ranks, alternates = question.plan.attention_dp, not question.profile.scheduler.mixes
    ending, slots = prompts
    starting = ending * np.ceil(np.maximum(1.0 / slots, 1.0))
    spread = spread_prompts(starting, slots, ranks, alternates=alternates)
    if not equal.all():
        random = rank_prompts(starting, slots, ranks, alternates=alternates)
        spread = RankPrompts(*(np.where(equal, a, b) for a, b in zip(spread, random, strict=True)))
    if question.limits.rank_balance_iters.any():
        together = np.clip(_held(question, ranks * ending, served).number, spread.ranks, ranks)
        spread = spread._replace(ranks=together)
    # the given sequence needs no prompt any more, so that its rank has fewer
    share = spread.rank_share * (served - ranks) / np.maximum(served - 1.0, 1.0)
    return spread._replace(rank_share=np.clip(share, 0.0, 1.0))


def _held(question: Candidates, rate: FloatArray, served: FloatArray) -> HeldPrompts:
    """Return the prompts that wait for those of other ranks; none where all ranks do not decode.

    Up to one request of each rank is the only one of its rank, which decodes nothing when it ends.

    Args:
        rate: Prompts of all ranks per decode step (C,).
        served: Sequences of the replica (C,).
    """
    ranks, iters = question.plan.attention_dp, question.limits.rank_balance_iters
    alone = np.clip((2.0 * ranks - served) / served, 0.0, 1.0)
    return held_prompts(rate, iters, ranks, 1.0 - alone)


def _held_steps(
    question: Candidates, steps: FloatArray, staggered: NDArray[np.bool_], served: FloatArray
) -> FloatArray:
    """Return the mean steps that a prompt waits until other ranks have some (C,).

    Args:
        steps: Decode steps of a request (C,).
        staggered: Whether ranks compute prompts in different steps (C,).
        served: Sequences of the replica (C,).
    """
    if not question.limits.rank_balance_iters.any():
        return np.zeros_like(steps)
    rate = np.maximum(served - 1.0, 0.0) / steps
    steps_C: FloatArray = np.where(staggered, _held(question, rate, served).wait_steps, 0.0)
    return steps_C


def _with_decodes(chunks: PrefillChunks, decodes: FloatArray) -> PrefillChunks:
    """Return chunks whose steps also decode that many sequences."""
    return replace(
        chunks,
        tokens=replace(chunks.tokens, decodes=decodes),
        last_tokens=replace(chunks.last_tokens, decodes=decodes),
    )


def served_sequences(question: Candidates, memory: MemoryColumns) -> FloatArray:
    """Return the concurrently running requests per replica, limited by memory and engine.

    If prefills and decodes share steps, B running sequences cause B isl/osl prompt tokens per step,
    which must fit the token budget besides the decodes: B <= budget osl/(isl + osl). Others wait.
    Each micro-batch of a pipeline has its own budget. An engine that does not split prompts starts
    one only where it fits whole beside the decodes. Speculative decoding takes fewer steps.
    """
    load, limits = question.load, question.limits
    on_rank = np.minimum(memory.max_sequences, limits.max_num_seqs)
    if question.profile.scheduler.mixes:
        new, steps = load.isl - load.prefix, load.osl / question.tokens_per_step
        fed = limits.max_num_batched_tokens * steps / (new + steps * (1.0 + question.drafts))
        fed = np.minimum(1.0 + np.floor(fed), max_decodes(question))
        on_rank = np.minimum(on_rank, fed * question.plan.pp)
    admitted = on_rank * question.plan.attention_dp
    return np.maximum(np.minimum(load.sequences, admitted), 1.0)
