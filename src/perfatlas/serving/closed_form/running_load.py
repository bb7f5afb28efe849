"""What runs at the same time on a replica: sequences, micro-batches, chunks of prompts.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.serving.closed_form.prompts import beside_prompt, prompt_room
from perfatlas.step import PrefillChunks, padded_batch, prefill_chunks, prefill_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from perfatlas.parallelism import MemoryColumns
    from perfatlas.step import Candidates, Step, StepContext


class Among(NamedTuple):
    """Requests among which those of one class run.

    Args:
        mean_osl: Mean output tokens of all.
    """

    mean_osl: float


@dataclass(frozen=True, kw_only=True)
class RunningLoad:
    """What runs at the same time on a replica of each candidate.

    Args:
        question: The candidates.
        memory: Memory of the rank with the highest usage.
        served: Concurrently running sequences per replica (C,).
        on_rank: Those of one attention-DP rank (C,).
        micro_batches: Parts of them, which pipeline stages process at the same time (C,).
        batch: Sequences of a micro-batch, which one decode step advances (C,).
        chunks: Prefill chunks of the batch (static) or of one request (aggregated).
        prompts: Prompts that are prefilled together (C,).
        busy_ranks: Attention-DP ranks that have a prompt at the same time (C,).
        mixed_steps: Share of the decode steps that also prefill (C,), above 1 where more would have
            to; 0 in static mode.
    """

    question: Candidates
    memory: MemoryColumns
    served: FloatArray
    on_rank: FloatArray
    micro_batches: FloatArray
    batch: FloatArray
    chunks: PrefillChunks
    prompts: FloatArray
    busy_ranks: FloatArray
    mixed_steps: FloatArray

    def decoding(self) -> tuple[FloatArray, FloatArray]:
        """Return the sequences of a decode step and their mean number of keys, each (C,)."""
        load = self.question.load
        return self.batch, load.isl + load.osl / 2.0

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
        chunks = _beside(prefill_chunks(prompts, new, question.load.prefix, room), decodes)
        return replace(self, chunks=chunks, prompts=prompts)

    def prefills(self, context: StepContext) -> list[Step]:
        """Return one full prefill chunk and, if any candidate has one, the smaller last chunk.

        Args:
            context: Model, engine, systems and plan of the candidates.
        """
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
        question: The candidates.
        memory: Their memory.
        among: Requests of other lengths beside which they run, None if all are equal: the load is
            then all served.
    """
    if among is None:
        admitted = served_sequences(question, memory)
        served = np.where(question.aggregated_C, admitted, question.load.sequences)
    else:
        served = question.load.sequences
    osl = question.load.osl if among is None else np.full_like(served, among.mean_osl)
    # pipeline stages process different micro-batches at the same time
    on_rank = np.ceil(served / question.plan.attention_dp)
    micro_batches = np.minimum(question.plan.pp, on_rank)
    batch = np.ceil(on_rank / micro_batches)
    chunks, prompts = _chunks(question, on_rank, batch, osl)
    # of the prompts that start while a request decodes
    number, steps = chunks.count + chunks.last_count, question.load.osl / question.tokens_per_step
    mixed_steps = number * (on_rank - 1.0) / (prompts * steps) * question.aggregated_C
    return RunningLoad(
        question=question,
        memory=memory,
        served=served,
        on_rank=on_rank,
        micro_batches=micro_batches,
        batch=batch,
        chunks=chunks,
        prompts=prompts,
        # attention-DP ranks without a prompt send no tokens to the experts
        busy_ranks=np.minimum(served / on_rank, question.plan.attention_dp),
        mixed_steps=mixed_steps,
    )


def _chunks(
    question: Candidates, on_rank: FloatArray, batch: FloatArray, osl: FloatArray
) -> tuple[PrefillChunks, FloatArray]:
    """Return the chunks of prompts that are prefilled together, and the number of prompts (C,).

    A static batch prefills all its prompts. With continuous batching, as many prompts start
    together as sequences end from one read of new requests to the next, (B - 1)/steps per step, at
    least one if any. Engines with mixed steps decode all
    running sequences, padded like a decode step, and fill the rest of the budget with prompts.
    """
    load, mixes = question.load, question.profile.scheduler.mixes
    new, queries = load.isl - load.prefix, 1.0 + question.drafts
    padded = padded_batch(batch * queries, question.profile.scheduler.graph_sizes)
    others = question.aggregated_C & (on_rank > 1)
    decodes = np.where(others & mixes, padded - queries, 0.0)
    left = np.maximum(question.limits.max_num_batched_tokens - decodes, 1.0)
    room = prompt_room(question, left)
    reads = question.limits.scheduler_recv_interval
    ending = (on_rank - 1.0) * question.tokens_per_step / osl * reads
    arriving = np.clip(ending, 1.0, np.maximum(room / new, 1.0))
    prompts = np.where(question.aggregated_C, arriving, on_rank)
    return _beside(prefill_chunks(prompts, new, load.prefix, room), decodes), prompts


def _beside(chunks: PrefillChunks, decodes: FloatArray) -> PrefillChunks:
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
    An engine that does not split prompts starts one only where it fits whole beside the decodes.
    With speculative decoding a request takes fewer steps, of several tokens each.

    Args:
        question: The candidates.
        memory: Their memory.
    """
    load, limits = question.load, question.limits
    on_rank = np.minimum(memory.max_sequences, limits.max_num_seqs)
    if question.profile.scheduler.mixes:
        new, steps = load.isl - load.prefix, load.osl / question.tokens_per_step
        fed = limits.max_num_batched_tokens * steps / (new + steps * (1.0 + question.drafts))
        on_rank = np.minimum(on_rank, 1.0 + np.floor(fed))
        on_rank = np.minimum(on_rank, beside_prompt(question))
    admitted = on_rank * question.plan.attention_dp
    return np.maximum(np.minimum(load.sequences, admitted), 1.0)
