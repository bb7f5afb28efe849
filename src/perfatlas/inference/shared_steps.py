"""Closed-form results of many candidates that share steps, each distinct step priced once.

Shape legend: C candidates, D columns of a key, U distinct steps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.inference.composition import batches_in_flight, predicted
from perfatlas.inference.distinct_steps import (
    TotalColumns,
    decode_key,
    distinct_loads,
    distinct_steps,
    take_chunks,
    take_loads,
    take_tokens,
)
from perfatlas.inference.energy import TokenEnergy, token_energy
from perfatlas.inference.evaluation import (
    alone_shares,
    operators_alone,
    operators_of_ranks,
    rank_energy,
)
from perfatlas.inference.latencies import Latencies
from perfatlas.inference.mixed_steps import AloneShares, load_steps
from perfatlas.inference.running_load import running_load
from perfatlas.inference.utilization import Utilization, step_utilization
from perfatlas.operators import Phase, unique_rows
from perfatlas.parallelism import MemoryColumns
from perfatlas.step import (
    STAGES,
    PrefillChunks,
    candidate_memory,
    decode_work,
    differs_by_transfers,
    prefill_work,
    staged_steps,
    step_costs,
    take_columns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates, StagedSteps, Step, StepCost


@dataclass(frozen=True, kw_only=True)
class LoadResults:
    """Closed-form results of candidates without the operators of their steps."""

    latencies: Latencies  # Predicted latencies
    low: Latencies  # 5% quantiles of all times
    high: Latencies  # 95% quantiles of all times, NaN where there is none
    memory: MemoryColumns  # Memory of the rank with the highest usage
    chunks: PrefillChunks  # Prefill chunks of the batch (static) or of one request (aggregated)
    served: FloatArray  # Concurrently running sequences per replica (C,)
    # Batches of prompts that run at the same time if they follow each other (C,)
    in_flight: FloatArray
    utilization: Utilization  # MFU and MBU of the full chunk and the decode step
    energy: TokenEnergy  # Energy of output tokens
    tiers: IntArray  # How operators are priced, as `StepCost.tier_codes` (C,)
    priced: int  # Number of distinct steps that were priced

    def take(self, index: IntArray) -> LoadResults:
        """Return the results of the candidates at the given positions."""
        memory = MemoryColumns(**take_columns(self.memory, index))
        return self.repeated(index, memory, take_chunks(self.chunks, index))

    def repeated(
        self, index: IntArray, memory: MemoryColumns, chunks: PrefillChunks
    ) -> LoadResults:
        """Return the results at the given positions, of candidates with memory of their own."""
        return replace(
            self,
            latencies=Latencies(*(v[index] for v in self.latencies)),
            low=Latencies(*(v[index] for v in self.low)),
            high=Latencies(*(v[index] for v in self.high)),
            memory=memory,
            chunks=chunks,
            served=self.served[index],
            in_flight=self.in_flight[index],
            utilization=Utilization(*(v[index] for v in self.utilization)),
            energy=self.energy.take(index),
            tiers=self.tiers[index],
        )


class _Steps(NamedTuple):
    """Distinct steps of one phase, priced."""

    cost: StepCost  # Their cost, or that of the steps through two stages from which theirs follows
    totals: TotalColumns  # Their totals (U,)
    mfu: FloatArray  # Their MFU (U,)
    mbu: FloatArray  # Their MBU (U,)
    rank_energy: FloatArray  # Share of their energy that only ranks with a prompt spend (U,)
    tiers: IntArray  # How their operators are priced, as `StepCost.tier_codes` (U,)
    # Their cost where it follows from that of steps through two stages, else None
    staged: StagedSteps | None

    @classmethod
    def of(cls, some: Candidates, work: _Work) -> _Steps:
        """Return the priced steps of candidates.

        Args:
            some: The candidates (U).
        """
        first_V, place_U = unique_rows(work.kind)
        if 10 * first_V.size > 9 * place_U.size or not differs_by_transfers(some.context()):
            every = np.arange(place_U.size)
            (cost,) = step_costs([work.steps(some, every)], some.context())
            used = step_utilization(some, cost, work.occupied_U)
            own_U = rank_energy(cost, some.context())
            return cls(cost, TotalColumns.of(cost), *used, own_U, cost.tier_codes(), None)
        two = some.take(first_V)
        two = replace(two, plan=replace(two.plan, pp=np.full(first_V.shape, STAGES)))
        step = work.steps(two, first_V)
        staged = staged_steps(step, two.context(), place_U, some.context(), work.launch_s)
        totals = TotalColumns.of(staged.cost)
        longer_U = staged.priced.total_s()[place_U] / totals.time_s
        mfu_V, mbu_V = step_utilization(two, staged.priced, work.occupied_U[first_V])
        used = mfu_V[place_U] * longer_U, mbu_V[place_U] * longer_U
        _, own_U = staged.shares(operators_of_ranks(staged.priced, two.context()))
        return cls(staged.priced, totals, *used, own_U, staged.tier_codes, staged)


class _Work(NamedTuple):
    """Distinct steps of one phase, before they are priced."""

    # Returns the steps of candidates, given their positions among the distinct steps
    steps: Callable[[Candidates, IntArray], Step]
    kind: list[FloatArray]  # What distinguishes them, but for their pipeline stages, each (U,)
    occupied_U: FloatArray  # Tokens of a step over those that it runs (U,)
    launch_s: float  # Host time to launch a transfer between stages [s]


def _mixed_step_shares(decode: _Steps, prefill: _Steps) -> AloneShares:
    """Return the shares of decode steps that a mixed step runs in addition to its chunk (U,)."""
    if decode.staged is None:
        return alone_shares(decode.cost, prefill.cost)
    alone = operators_alone(decode.cost, prefill.cost)
    return AloneShares(*decode.staged.shares(np.isin(np.arange(len(decode.cost.operators)), alone)))


def evaluate_loads(
    question: Candidates, memory: MemoryColumns | None = None, phase: Phase | None = None
) -> LoadResults:
    """Return the results of `evaluate` without operators, pricing each distinct step once.

    Candidates that differ in replicas, in limits that do not change a step, or only in the size of
    prefill chunks share their steps.

    Args:
        memory: Their memory, None to compute it.
        phase: The phase to price, for static batches of a prefill or decode worker: results that
            depend on the other phase are NaN. None prices both.
    """
    memory = candidate_memory(question) if memory is None else memory
    return load_results(running_load(question, memory), phase)


def load_results(loaded: RunningLoad, phase: Phase | None = None) -> LoadResults:
    """Return the results of candidates whose load is known.

    Candidates whose limits make no difference to what runs are evaluated once.

    Args:
        phase: As for `evaluate_loads`.
    """
    first_U, place_C = distinct_loads(loaded)
    if first_U.size == place_C.size:
        return _results_of_each(loaded, phase)
    results = _results_of_each(take_loads(loaded, first_U), phase)
    return results.repeated(place_C, loaded.memory, loaded.chunks)


def _results_of_each(loaded: RunningLoad, phase: Phase | None) -> LoadResults:
    """Return the results of candidates whose load is known, each evaluated."""
    question = loaded.question
    missing = np.full(question.load.isl.shape, np.nan)
    unknown = TotalColumns(*[missing] * len(TotalColumns._fields))
    chunk = last = step = unknown
    none_C = np.zeros_like(missing)
    used, alone, own_C = [missing] * 4, AloneShares(none_C, none_C), none_C
    prefill = decode = None
    tiers = np.zeros(missing.shape, np.int64)
    if phase != Phase.DECODE:
        prefill, chunk_C, last_C = _prefill(loaded)
        chunk, last = prefill.totals.at(chunk_C), prefill.totals.at(last_C)
        own_C = prefill.rank_energy[chunk_C]
        used[:2] = prefill.mfu[chunk_C], prefill.mbu[chunk_C]
        tiers |= prefill.tiers[chunk_C]
    if phase != Phase.PREFILL:
        decode, step_C = _decode(loaded)
        step = decode.totals.at(step_C)
        used[2:] = decode.mfu[step_C], decode.mbu[step_C]
        tiers |= decode.tiers[step_C]
        if prefill is not None:
            alone = _mixed_step_shares(decode, prefill).take(step_C)
    running = load_steps(loaded, (chunk, last, step), alone)
    latencies, low, high = predicted(loaded, running)
    return LoadResults(
        latencies=latencies,
        low=low,
        high=high,
        memory=loaded.memory,
        chunks=loaded.chunks,
        served=loaded.served,
        in_flight=batches_in_flight(loaded, running),
        utilization=Utilization(*used),
        energy=token_energy(loaded, running, own_C),
        tiers=tiers,
        priced=sum(steps.mfu.size for steps in (prefill, decode) if steps is not None),
    )


def _decode(loaded: RunningLoad) -> tuple[_Steps, IntArray]:
    """Return the distinct decode steps, and that of each candidate (C,)."""
    first_U, index_C, kind = distinct_steps(loaded.question, decode_key(loaded))
    batch_U, keys_U = (column_C[first_U] for column_C in loaded.decoding())

    def steps(some: Candidates, index: IntArray) -> Step:
        return decode_work(some.context(), batch_U[index], keys_U[index])

    work = _Work(steps, kind, loaded.occupied()[first_U], 0.0)
    return _Steps.of(loaded.question.take(first_U), work), index_C


def _prefill(loaded: RunningLoad) -> tuple[_Steps, IntArray, IntArray]:
    """Return the distinct prefill chunks, and the full and the last one of each candidate (C,).

    The last chunk of candidates without a smaller one is the full one.
    """
    chunks = loaded.chunks
    smaller = np.flatnonzero(chunks.last_count)
    rows = np.concatenate([np.arange(chunks.count.size), smaller])
    tokens, last = chunks.tokens, take_tokens(chunks.last_tokens, smaller)
    columns = {
        field.name: np.concatenate([column, getattr(last, field.name)])
        for field in fields(tokens)
        if (column := getattr(tokens, field.name)) is not None
    }
    both = replace(tokens, **columns)
    key = [*columns.values(), loaded.busy_ranks[rows]]
    images_C = loaded.question.context().images_per_token_C
    key += [] if images_C is None else [images_C[rows]]
    first_U, index, kind = distinct_steps(loaded.question, key, rows)
    some = loaded.question.take(rows[first_U])
    busy_U = loaded.busy_ranks[rows[first_U]]

    def steps(some: Candidates, index: IntArray) -> Step:
        tokens = take_tokens(both, first_U[index])
        return prefill_work(some.context(), tokens, busy_U[index])

    launch_s = some.profile.host.per_operator_prefill_s
    work = _Work(steps, kind, np.ones(first_U.size), launch_s)
    chunk_C = index[: chunks.count.size]
    last_C = chunk_C.copy()
    last_C[smaller] = index[chunks.count.size :]
    return _Steps.of(some, work), chunk_C, last_C
