"""Closed-form results of many candidates that share steps, each distinct step priced once.

Shape legend: C candidates, K columns of a key, U distinct steps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.kernels.devices import unique_rows
from perfatlas.parallelism import MemoryColumns
from perfatlas.serving.closed_form.composition import predicted
from perfatlas.serving.closed_form.energy import TokenEnergy, token_energy
from perfatlas.serving.closed_form.evaluation import alone_share, energy_alone_share
from perfatlas.serving.closed_form.latencies import Latencies
from perfatlas.serving.closed_form.running_load import running_load
from perfatlas.serving.closed_form.utilization import Utilization, step_utilization
from perfatlas.step import (
    PrefillChunks,
    candidate_memory,
    decode_work,
    prefill_work,
    step_costs,
    take_columns,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.models import StepTokens
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.serving.closed_form.running_load import RunningLoad
    from perfatlas.step import Candidates, StepCost

SHARDED: tuple[str, ...] = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp")


@dataclass(frozen=True, kw_only=True)
class LoadResults:
    """Closed-form results of candidates without the operators of their steps.

    Args:
        latencies: Predicted latencies.
        low: 5% quantiles of all times.
        high: 95% quantiles of all times, NaN where there is none.
        memory: Memory of the rank with the highest usage.
        chunks: Prefill chunks of the batch (static) or of one request (aggregated).
        served: Concurrently running sequences per replica (C,).
        utilization: MFU and MBU of the full chunk and the decode step.
        energy: Energy of output tokens.
        priced: Number of distinct steps that were priced.
    """

    latencies: Latencies
    low: Latencies
    high: Latencies
    memory: MemoryColumns
    chunks: PrefillChunks
    served: FloatArray
    utilization: Utilization
    energy: TokenEnergy
    priced: int

    def take(self, index: IntArray) -> LoadResults:
        """Return the results of the candidates at the given positions.

        Args:
            index: Positions.
        """
        return replace(
            self,
            latencies=Latencies(*(v[index] for v in self.latencies)),
            low=Latencies(*(v[index] for v in self.low)),
            high=Latencies(*(v[index] for v in self.high)),
            memory=MemoryColumns(**take_columns(self.memory, index)),
            chunks=_chunks_at(self.chunks, index),
            served=self.served[index],
            utilization=Utilization(*(v[index] for v in self.utilization)),
            energy=self.energy.take(index),
        )


def _chunks_at(chunks: PrefillChunks, index: IntArray) -> PrefillChunks:
    return PrefillChunks(
        count=chunks.count[index],
        tokens=_tokens_at(chunks.tokens, index),
        last_count=chunks.last_count[index],
        last_tokens=_tokens_at(chunks.last_tokens, index),
    )


def _tokens_at(tokens: StepTokens, index: IntArray) -> StepTokens:
    columns = {field.name: getattr(tokens, field.name) for field in fields(tokens)}
    return replace(tokens, **{n: v[index] for n, v in columns.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class _SharedCost:
    """Cost of distinct steps, read as if every candidate had its own."""

    cost: StepCost
    index_C: IntArray

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""
        return self.cost.total_s()[self.index_C]

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""
        return self.cost.exposed_host_s()[self.index_C]

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""
        return self.cost.host_work_s()[self.index_C]

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""
        return self.cost.low_s()[self.index_C]

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""
        return self.cost.high_s()[self.index_C]

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""
        return self.cost.least_s()[self.index_C]

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s]."""
        return self.cost.laboratory_s()[self.index_C]

    def bound_share(self) -> FloatArray:
        """Return the fraction of the time priced at the roofline for lack of calibrations (C,)."""
        return self.cost.bound_share()[self.index_C]

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy at full clock (C,) [J]."""
        return self.cost.energy_j()[self.index_C]


def evaluate_loads(question: Candidates, memory: MemoryColumns | None = None) -> LoadResults:
    """Return the results of `evaluate` without operators, pricing each distinct step once.

    Candidates that differ in replicas, in limits that do not change a step, or only in the size of
    prefill chunks share their steps.

    Args:
        question: The candidates, with valid plans.
        memory: Their memory, None to compute it.
    """
    loaded = running_load(question, candidate_memory(question) if memory is None else memory)
    decode, decode_U, utilized = _decode(loaded)
    prefill, prefill_U, filled = _prefill(loaded, loaded.chunks.tokens)
    last = prefill
    if np.any(loaded.chunks.last_count):
        last, _, _ = _prefill(loaded, loaded.chunks.last_tokens)
    costs = (prefill, last, decode)
    mixed = 1.0 - energy_alone_share(decode.cost, prefill.cost)
    alone = alone_share(decode.cost, prefill.cost)
    latencies, low, high = predicted(loaded, costs, alone[decode.index_C])
    return LoadResults(
        latencies=latencies,
        low=low,
        high=high,
        memory=loaded.memory,
        chunks=loaded.chunks,
        served=loaded.served,
        utilization=Utilization(
            *(v[prefill.index_C] for v in filled), *(v[decode.index_C] for v in utilized)
        ),
        energy=token_energy(question, costs, loaded.chunks, loaded.waves(mixed[decode.index_C])),
        priced=decode_U + prefill_U,
    )


def _decode(loaded: RunningLoad) -> tuple[_SharedCost, int, tuple[FloatArray, FloatArray]]:
    """Return the distinct decode steps, their number, and their MFU and MBU."""
    batch_C, keys_C = loaded.decoding()
    first_U, index_C = _distinct(loaded.question, [batch_C, keys_C])
    some = loaded.question.take(first_U.tolist())
    step = decode_work(some.context(), batch_C[first_U], keys_C[first_U])
    (cost,) = step_costs([step], some.context())
    occupied_U = loaded.occupied()[first_U]
    found = step_utilization(some, cost, occupied_U)
    return _SharedCost(cost=cost, index_C=index_C), first_U.size, found


def _prefill(
    loaded: RunningLoad, tokens: StepTokens
) -> tuple[_SharedCost, int, tuple[FloatArray, FloatArray]]:
    """Return the distinct prefill chunks, their number, and their MFU and MBU."""
    columns = [getattr(tokens, field.name) for field in fields(tokens)]
    key = [*(column for column in columns if column is not None), loaded.busy_ranks]
    first_U, index_C = _distinct(loaded.question, key)
    some = loaded.question.take(first_U.tolist())
    step = prefill_work(some.context(), _tokens_at(tokens, first_U), loaded.busy_ranks[first_U])
    (cost,) = step_costs([step], some.context())
    found = step_utilization(some, cost, np.ones(first_U.size))
    return _SharedCost(cost=cost, index_C=index_C), first_U.size, found


def _distinct(question: Candidates, key: Sequence[FloatArray]) -> tuple[IntArray, IntArray]:
    """Return the first candidate of each distinct step (U,), and the step of each (C,)."""
    placement = question.placement
    clock_C = placement.clock_ratio_C
    columns = [
        *(getattr(question.plan, name) for name in SHARDED),
        placement.index_C.astype(np.float64),
        *(() if clock_C is None else (clock_C,)),
        *key,
    ]
    return unique_rows(np.column_stack(columns))
