"""Closed-form evaluation of all candidates at once.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas import step
from perfatlas.inference.composition import batches_in_flight, predicted
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
    from perfatlas.operators import FloatArray


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Closed-form results of candidates."""

    latencies: Latencies  # Predicted latencies
    low: Latencies  # 5% quantiles of all times
    high: Latencies  # 95% quantiles of all times, NaN where there is none
    memory: MemoryColumns  # Memory of the rank with the highest usage
    prefill: step.StepCost  # Cost of one full prefill chunk
    last: step.StepCost  # Cost of the smaller last chunk of a prefill
    decode: step.StepCost
    chunks: (
        step.PrefillChunks
    )  # Prefill chunks of the batch (static) or of one request (aggregated)
    served: FloatArray  # Concurrently running sequences per replica (C,)
    # Batches of prompts that run at the same time if they follow each other (C,)
    in_flight: FloatArray
    utilization: Utilization  # MFU and MBU of the full chunk and the decode step
    energy: TokenEnergy  # Energy of output tokens

    def encoder_s(self) -> FloatArray:
        """Return the time of the vision encoder in all chunks of `chunks` (C,) [s]."""
        seconds_C = np.zeros_like(self.chunks.count)
        for cost, count_C in (
            (self.prefill, self.chunks.count),
            (self.last, self.chunks.last_count),
        ):
            encodes_O = [operator.name.startswith(ENCODER) for operator in cost.operators]
            busy_CO = cost.count_CO * cost.prices.time_s_CO
            seconds_C = seconds_C + count_C * busy_CO[:, encodes_O].sum(axis=1)
        return seconds_C

    def steps(self, *, prefills: bool = True, decodes: bool = True) -> tuple[step.StepCost, ...]:
        """Return the steps that run.

        Args:
            prefills: Whether prompts are computed.
            decodes: Whether output tokens are decoded.
        """
        some = (self.prefill, self.last) if prefills else ()
        return (*some, self.decode) if decodes else some

    def take(self, rows: list[int]) -> Evaluation:
        """Return the latencies and memory of the candidates at the given positions."""
        index = np.array(rows, np.int64)
        return replace(
            self,
            latencies=Latencies(*(v[index] for v in self.latencies)),
            low=Latencies(*(v[index] for v in self.low)),
            high=Latencies(*(v[index] for v in self.high)),
            memory=MemoryColumns(**step.take_columns(self.memory, index)),
            served=self.served[index],
            in_flight=self.in_flight[index],
            utilization=Utilization(*(v[index] for v in self.utilization)),
            energy=self.energy.take(index),
        )


def evaluate(question: step.Candidates, tails: StepTails | None = None) -> Evaluation:
    """Return latencies, memory and step costs of candidates with valid plans.

    Static mode: one batch of equal requests. Aggregated mode: continuous batching in closed form.

    Args:
        tails: Errors of measured runs, by default those of the engine and between laboratories.
    """
    context, loaded = question.context(), running_load(question, step.candidate_memory(question))
    chunks = loaded.chunks
    prompts, opening = loaded.prefills(context), loaded.opening()
    all_at_once = [] if opening is None else opening.prefills(context)
    # priced together, so that shared shapes are priced once
    steps = [step.decode_work(context, *loaded.decoding()), *prompts, *all_at_once]
    decode, *others = step.step_costs(steps, context)
    prefill, last = others[0], others[len(prompts) - 1]
    costs = (prefill, last, decode)
    running = load_steps(loaded, costs, alone_shares(decode, prefill))
    burst = None if opening is None else Burst(opening, others[len(prompts)], others[-1])
    latencies, low, high = predicted(loaded, running, tails, burst)
    return Evaluation(
        latencies=latencies,
        low=low,
        high=high,
        memory=loaded.memory,
        prefill=prefill,
        last=last,
        decode=decode,
        chunks=chunks,
        served=loaded.served,
        in_flight=batches_in_flight(loaded, running),
        utilization=utilization_of(question, prefill, decode, loaded.occupied()),
        energy=token_energy(loaded, running, rank_energy(prefill, context)),
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
