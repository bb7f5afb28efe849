"""Closed-form disaggregated serving: a prefill pool and a decode pool with matched rates.

A prompt runs, its KV cache is transferred, and its sequence joins the decode batch. By engine, the
client gets its first token from the prefill worker when the prompt ends, from the prefill worker
when the sequence joins the batch, or from the decode worker, which recomputes it.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from perfatlas.inference import pool_times
from perfatlas.inference.front_end import client_note
from perfatlas.inference.latencies import Latencies, Prompt
from perfatlas.inference.results import energy_columns

if TYPE_CHECKING:
    from perfatlas.inference.energy import TokenEnergy
    from perfatlas.inference.evaluation import Evaluation
    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

Evaluated = TypeVar("Evaluated", bound="Evaluation | LoadResults")
POOL_RULES: Final = (
    "disaggregated serving: KV caches are transferred over one NIC per device without contention;"
    " no queueing in either pool; the slower pool limits throughput"
)
FIRST_TOKEN: Final = {
    "prefill": "the prefill worker returns the first token when the prompt ends",
    "arrival": "the prefill worker's first token is returned when the sequence joins the decode"
    " batch",
    "recomputed": "the decode worker computes the first token from the last prompt token after the"
    " KV cache transfer",
}


@dataclass(frozen=True, kw_only=True)
class PoolRates(Generic[Evaluated]):
    """Results of both pools for the same candidates."""

    load: pool_times.PoolLoad  # Workers and requests in flight
    prefill: tuple[Candidates, Evaluated]  # Candidates and results of a prefill worker
    decode: tuple[Candidates, Evaluated]  # Candidates and results of a decode worker

    @cached_property
    def times(self) -> pool_times.PoolTimes:
        """Latencies and rates of the deployments."""
        return pool_times.PoolTimes(
            load=self.load,
            prefill=pool_times.PrefillWorker.of(*self.prefill),
            decode=pool_times.DecodeWorker.of(*self.decode),
            first_from=pool_times.first_from(self.prefill[0]),
        )

    def energy(self) -> TokenEnergy:
        """Return the energy of output tokens over both pools."""
        return self.times.energy(self.prefill[1].energy, self.decode[1].energy)

    def latencies(self, quantile: str) -> Latencies:
        """Return the latencies seen by a client, and the output tokens/s of the deployment.

        Args:
            quantile: "latencies", "low" or "high" of the pools' evaluations.
        """
        return self.times.latencies(quantile)

    def prompt(self) -> Prompt:
        """Return the engine time of a prompt and of a request over both pools."""
        times = self.times
        latency_s = times.predicted.request_latency_s
        return Prompt(times.prefill.latencies, latency_s - times.prefill.late_s)

    def notes(self) -> str:
        """Return a remark on the assumptions about both pools."""
        client = client_note(self.prefill[0])
        first, second = (question.profile.id for question, _ in (self.prefill, self.decode))
        alike = f"; {second} is assumed to read the KV cache that {first} hands over"
        rules = POOL_RULES + (alike if first != second else "")
        return f"{rules}; {FIRST_TOKEN[pool_times.first_from(self.prefill[0])]}; {client}"

    def columns(self) -> dict[str, FloatArray]:
        """Return the result columns of the deployment, each (C,)."""
        columns = self.times.columns()
        columns |= energy_columns(self.energy(), columns, self.decode[0].load.osl)
        times = self.times
        alone = (times.decode.osl <= 1.0) & (times.first_from == "prefill")
        travels_s = np.where(alone, np.nan, times.transfer_s)  # no transfer
        steps = self.prefill[1].utilization._asdict()
        steps |= {
            name: share_C
            for name, share_C in self.decode[1].utilization._asdict().items()
            if name.startswith("decode")
        }
        return columns | steps | {"gpus": times.gpus, "kv_transfer_s": travels_s}
