"""Closed-form evaluation of all candidates at once.

Shape legend: C candidates, O operators, W candidates that run all distinct steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas import step
from perfatlas.inference.composition import batches_in_flight, predicted
from perfatlas.inference.distinct_steps import TotalColumns, covering, take_chunks, take_loads
from perfatlas.inference.energy import TokenEnergy, token_energy
from perfatlas.inference.latencies import MIN_FLOAT, Latencies
from perfatlas.inference.mixed_steps import AloneShares, load_steps
from perfatlas.inference.opening_burst import Burst
from perfatlas.inference.running_load import running_load
from perfatlas.inference.utilization import Utilization, utilization_of
from perfatlas.networks import ENCODER
from perfatlas.parallelism import MemoryColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.inference.intervals import StepTails
    from perfatlas.operators import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Closed-form results of candidates."""

    latencies: Latencies  # Predicted latencies
    low: Latencies  # 5% quantiles of all times
    high: Latencies  # 95% quantiles of all times, NaN where there is none
    memory: MemoryColumns  # Memory of the rank with the highest usage
    prefills: step.SharedSteps  # One full prefill chunk
    lasts: step.SharedSteps  # The smaller last chunk of a prefill
    decodes: step.SharedSteps
    chunks: step.PrefillChunks  # Chunks of the batch (static) or of one request (aggregated)
    served: FloatArray  # Concurrently running sequences per replica (C,)
    # Batches of prompts that run at the same time if they follow each other (C,)
    in_flight: FloatArray
    utilization: Utilization  # MFU and MBU of the full chunk and the decode step
    energy: TokenEnergy  # Energy of output tokens

    @property
    def prefill(self) -> step.StepCost:
        """Cost of the full prefill chunk of each candidate."""
        return self.prefills.each()

    @property
    def decode(self) -> step.StepCost:
        """Cost of the decode step of each candidate."""
        return self.decodes.each()

    def encoder_s(self) -> FloatArray:
        """Return the time of the vision encoder in all chunks of `chunks` (C,) [s]."""
        first_s_C, last_s_C = self.prefills.of(_encoder_s), self.lasts.of(_encoder_s)
        return self.chunks.count * first_s_C + self.chunks.last_count * last_s_C

    def steps(self, *, prefills: bool = True, decodes: bool = True) -> tuple[step.SharedSteps, ...]:
        """Return the steps that run.

        Args:
            prefills: Whether prompts are computed.
            decodes: Whether output tokens are decoded.
        """
        some = (self.prefills, self.lasts) if prefills else ()
        return (*some, self.decodes) if decodes else some

    def take(self, rows: list[int]) -> Evaluation:
        """Return the results of the candidates at the given positions."""
        index = np.array(rows, np.int64)
        return replace(
            self,
            latencies=Latencies(*(v[index] for v in self.latencies)),
            low=Latencies(*(v[index] for v in self.low)),
            high=Latencies(*(v[index] for v in self.high)),
            memory=MemoryColumns(**step.take_columns(self.memory, index)),
            chunks=take_chunks(self.chunks, index),
            served=self.served[index],
            in_flight=self.in_flight[index],
            utilization=Utilization(*(v[index] for v in self.utilization)),
            energy=self.energy.take(index),
            prefills=self.prefills.at(index),
            lasts=self.lasts.at(index),
            decodes=self.decodes.at(index),
        )


def _totals(cost: step.StepCost, index_C: IntArray) -> TotalColumns:
    """Return the totals of the step of each candidate (C,)."""
    return TotalColumns.of(cost).at(index_C)


def _encoder_s(cost: step.StepCost) -> FloatArray:
    """Return the time of the vision encoder in a step (C,) [s]."""
    encodes_O = [operator.name.startswith(ENCODER) for operator in cost.operators]
    seconds_C: FloatArray = (cost.count_CO * cost.prices.time_s_CO)[:, encodes_O].sum(axis=1)
    return seconds_C


def evaluate(question: step.Candidates, tails: StepTails | None = None) -> Evaluation:
    """Return latencies, memory and step costs of candidates with valid plans.

    Static mode: one batch of equal requests. Aggregated mode: continuous batching in closed form.

    Args:
        tails: Errors of measured runs, by default those of the engine and between laboratories.
    """
    loaded = running_load(question, step.candidate_memory(question))
    opening = loaded.opening()
    loads = [loaded] if opening is None else [loaded, opening]
    rows_W, decode_C, chunk_C = covering(loads)
    every = rows_W.size == question.size
    own, *others = loads if every else [take_loads(load, rows_W) for load in loads]
    context = own.question.context()
    prompts = own.prefills(context)
    all_at_once = [chunk for load in others for chunk in load.prefills(context)]
    # priced together, so that shared shapes are priced once
    steps = [step.decode_work(context, *own.decoding()), *prompts, *all_at_once]
    decode, *chunks = step.step_costs(steps, context)
    prefill, last = chunks[0], chunks[len(prompts) - 1]
    running = load_steps(
        loaded,
        (_totals(prefill, chunk_C), _totals(last, chunk_C), _totals(decode, decode_C)),
        alone_shares(decode, prefill).take(decode_C),
    )
    burst = None
    if opening is not None:
        burst = Burst(opening, *(_totals(chunks[at], chunk_C) for at in (len(prompts), -1)))
    latencies, low, high = predicted(loaded, running, tails, burst)
    used = utilization_of(own.question, prefill, decode, own.occupied())
    of_phase = (chunk_C, chunk_C, decode_C, decode_C)
    return Evaluation(
        latencies=latencies,
        low=low,
        high=high,
        memory=loaded.memory,
        prefills=step.SharedSteps(prefill, chunk_C),
        lasts=step.SharedSteps(last, chunk_C),
        decodes=step.SharedSteps(decode, decode_C),
        chunks=loaded.chunks,
        served=loaded.served,
        in_flight=batches_in_flight(loaded, running),
        utilization=Utilization(*(u[index] for u, index in zip(used, of_phase, strict=True))),
        energy=token_energy(loaded, running, rank_energy(prefill, context)[chunk_C]),
    )


def alone_shares(decode: step.StepCost, prefill: step.StepCost) -> AloneShares:
    """Return the shares of a decode step that a mixed step runs in addition to its chunk."""
    columns = operators_alone(decode, prefill)
    time_CO = decode.count_CO * decode.prices.time_s_CO
    energy_CO = decode.unlimited_operator_energy_j()
    return AloneShares(
        *(
            some_CO[:, columns].sum(axis=1) / np.maximum(some_CO.sum(axis=1), MIN_FLOAT)
            for some_CO in (time_CO, energy_CO)
        )
    )


def rank_energy(prefill: step.StepCost, context: step.StepContext) -> FloatArray:
    """Return the energy share of a chunk that only attention-DP ranks with a prompt spend (C,)."""
    energy_CO = prefill.unlimited_operator_energy_j()
    own_CO = np.where(operators_of_ranks(prefill, context), energy_CO, 0.0)
    share_C: FloatArray = own_CO.sum(axis=1) / np.maximum(energy_CO.sum(axis=1), MIN_FLOAT)
    return share_C


def operators_of_ranks(prefill: step.StepCost, context: step.StepContext) -> NDArray[np.bool_]:
    """Return which operators of a chunk attention-DP ranks run on their own tokens (C, O)."""
    all_OC = [step.works_on_all_tokens(op, context) for op in prefill.operators]
    return ~np.stack(all_OC, axis=1)


def operators_alone(decode: step.StepCost, prefill: step.StepCost) -> list[int]:
    """Return the operators of a decode step that a mixed step runs in addition to the prefill."""
    shared = {op.name for op in prefill.operators if not op.per_sequence}
    return [i for i, op in enumerate(decode.operators) if op.name not in shared]
