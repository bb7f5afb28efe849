"""Disaggregated serving in closed form: a prefill pool and a decode pool with matched rates.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.parallelism import kv_bytes_per_sequence, stage_share
from perfatlas.scenario.results import interval_columns
from perfatlas.scenario.serving_formula import Latencies

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.evaluate import Evaluation
    from perfatlas.scenario.question import Question
    from perfatlas.scenario.vocabulary import Scenario

ROUNDING: Final = 1e-9  # relative; two equal rates computed in different order
SHARED = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp")


@dataclass(frozen=True, kw_only=True)
class Pools:
    """One scenario as two: what a prefill worker and what a decode worker is asked."""

    prefill: Scenario
    decode: Scenario


def split_pools(scenario: Scenario) -> Pools:
    """Return the scenarios of one prefill worker and one decode worker.

    `prefill_*` and `decode_*` override the shared names; a decode worker holds `decode_batch`
    sequences, or its part of `concurrency`.

    Args:
        scenario: A scenario in mode disaggregated.
    """
    in_flight = scenario.concurrency or scenario.decode_workers
    held = scenario.decode_batch or max(in_flight // scenario.decode_workers, 1)
    return Pools(
        prefill=_worker(scenario, "prefill", scenario.prefill_batch),
        decode=_worker(scenario, "decode", held),
    )


def _worker(scenario: Scenario, role: str, batch: int) -> Scenario:
    changes: dict[str, Any] = {"mode": "static", "batch": batch, "concurrency": None}
    changes |= {"gpus": None, "dp": 1}
    for name in ("system", *SHARED):
        own = getattr(scenario, f"{role}_{name}", None)
        if own is not None:
            changes[name] = own
    changes |= {"cp": 1} if role == "decode" else {"osl": 1}
    return scenario.model_copy(update=changes)


def asked_of_pools(scenario: Scenario) -> dict[str, int]:
    """Return the workers of a disaggregated scenario and the batch of each, by name."""
    asked = {"dp": 1}
    pools = split_pools(scenario)
    for role, worker in (("prefill", pools.prefill), ("decode", pools.decode)):
        asked[f"{role}_tp"] = worker.tp or 1
        asked[f"{role}_workers"] = getattr(scenario, f"{role}_workers")
        asked[f"{role}_batch"] = worker.batch or 1
    return asked


def cache_link_s(question: Question, tokens_C: FloatArray) -> FloatArray:
    """Return how long a cache takes over the NICs of a worker (C,) [s].

    Every rank sends, or takes, the part it holds over the NICs of its own device.

    Args:
        question: Of a prefill or a decode worker.
        tokens_C: Tokens of the cache (C,).
    """
    nodes = [system.node for system in question.placement.systems]
    nic_S = np.array([node.nic_bandwidth * node.nics / node.devices for node in nodes])
    cache_C = kv_bytes_per_sequence(
        question.model.architecture, question.formats.kv, question.plan, tokens_C
    )
    link_s_C: FloatArray = cache_C / nic_S[question.placement.index_C]
    return link_s_C


def fabric_latency_s(question: Question) -> FloatArray:
    """Return the time from one node to another, whatever the size (C,) [s].

    Args:
        question: Of a worker.
    """
    latency_S = np.array([system.fabric.latency_s for system in question.placement.systems])
    latency_s_C: FloatArray = latency_S[question.placement.index_C]
    return latency_s_C


@dataclass(frozen=True, kw_only=True)
class PoolRates:
    """Both pools evaluated for the same candidates.

    Args:
        scenarios: In mode disaggregated (C).
        prefill: Question and numbers of a prefill worker.
        decode: Question and numbers of a decode worker.
    """

    scenarios: tuple[Scenario, ...]
    prefill: tuple[Question, Evaluation]
    decode: tuple[Question, Evaluation]

    def _workers(self, name: str) -> FloatArray:
        return np.array([float(getattr(s, name)) for s in self.scenarios])

    def gpus(self) -> FloatArray:
        """Return devices of both pools (C,)."""
        one_prefill = self.prefill[0].plan.gpus_per_replica
        one_decode = self.decode[0].plan.gpus_per_replica
        return one_prefill * self._workers("prefill_workers") + one_decode * self._workers(
            "decode_workers"
        )

    def transfer_s(self) -> FloatArray:
        """Return the time to hand one request's cache to a decode worker (C,) [s].

        Limits: no contention, no overlap with the prefill; workers are not in one scale-up domain.
        """
        isl_C = self.prefill[0].load.isl
        both = [cache_link_s(question, isl_C) for question in (self.prefill[0], self.decode[0])]
        transfer_C: FloatArray = np.maximum(*both) + fabric_latency_s(self.prefill[0])
        return transfer_C

    def latencies(self, quantile: str) -> Latencies:
        """Return what a user sees, and the output tokens/s of the deployment.

        The rate is that of the slower pool, and never more than the requests in flight allow
        (Little's law).

        Args:
            quantile: "latencies", "low" or "high" of the pools' evaluations.
        """
        prefill: Latencies = getattr(self.prefill[1], quantile)
        decode: Latencies = getattr(self.decode[1], quantile)
        osl = self.decode[0].load.osl
        first_s = prefill.ttft_s + self.transfer_s()
        latency_s = first_s + decode.tpot_s * (osl - 1.0)
        held = self._workers("decode_workers") * self.decode[0].load.sequences
        decode_rate = held / (decode.tpot_s * np.maximum(osl - 1.0, 1.0))
        served = np.minimum(self._prefill_rate(prefill), decode_rate)
        rate = np.minimum(served, self._in_flight() / latency_s)
        if quantile == "high":
            first_s = np.full_like(first_s, np.nan)  # a floor that leaves queueing out
        return Latencies(first_s, decode.tpot_s, latency_s, rate * osl)

    def _prefill_rate(self, prefill: Latencies) -> FloatArray:
        """Return the requests/s the prefill pool can take (C,)."""
        question = self.prefill[0]
        # a pipeline takes the next prompts as soon as its slowest stage is free
        share = stage_share(question.model.architecture, question.plan)
        busy_s = prefill.ttft_s * np.where(question.plan.pp > 1, share, 1.0)
        rate_C: FloatArray = self._workers("prefill_workers") * question.load.sequences / busy_s
        return rate_C

    def warnings(self) -> tuple[str, ...]:
        """Return whether prefill leaves the first candidate's decode pool emptier than priced."""
        rate = float(self._prefill_rate(self.prefill[1].latencies)[0])
        seen, osl = self.latencies("latencies"), float(self.decode[0].load.osl[0])
        if rate * osl > float(seen.output_tokens_per_s[0]) * (1.0 + ROUNDING):
            return ()  # decode, or the requests in flight, limit the rate
        workers, asked = self.scenarios[0].decode_workers, self.scenarios[0].concurrency
        held = float(self.decode[0].load.sequences[0])
        reached = rate * float(seen.tpot_s[0]) * (osl - 1.0) / workers
        said = [f"prefill limits the rate to {rate:.3g} requests/s"]
        running = rate * float(seen.request_latency_s[0])
        if asked and asked - running >= 1.0:
            said.append(
                f"{asked} requests in flight were asked, about {running:.0f} run at a time; the"
                " rest queue and TTFT leaves that out"
            )
        if osl > 1.0 and held - max(reached, 1.0) >= 1.0:
            said.append(
                f"TPOT is priced at {held:g} sequences per decode worker, about {reached:.2g} are"
                " reached: it is too long"
            )
        return ("; ".join((*said, "use more prefill_workers")),) if said[1:] else ()

    def _in_flight(self) -> FloatArray:
        """Requests in flight over the deployment (C,), infinite where only workers limit them."""
        return np.array([float(s.concurrency or np.inf) for s in self.scenarios])

    def columns(self) -> dict[str, FloatArray]:
        """Return the result columns of the deployment, each (C,)."""
        gpus = self.gpus()
        latencies = (self.latencies("latencies"), self.latencies("low"), self.latencies("high"))
        columns = interval_columns(latencies, gpus, self.decode[0].load.osl)
        return columns | {"gpus": gpus, "kv_transfer_s": self.transfer_s()}
