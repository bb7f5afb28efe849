"""Latencies and rates of deployments with a prefill pool and a decode pool, from their workers.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.inference.composition import steps_ahead
from perfatlas.inference.energy import TokenEnergy, pooled_energy
from perfatlas.inference.front_end import client_ends, client_side
from perfatlas.inference.latencies import Joining, Latencies, joining_s
from perfatlas.inference.results import interval_columns
from perfatlas.parallelism import kv_bytes_per_sequence

if TYPE_CHECKING:
    from perfatlas.inference.evaluation import Evaluation
    from perfatlas.inference.shared_steps import LoadResults
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import Candidates

MIN_BUSY_S: Final = 1e-12  # at a decode worker without remaining work


def cache_link_s(question: Candidates, tokens_C: FloatArray) -> FloatArray:
    """Return the transfer time of a KV cache over the NICs of a worker (C,) [s].

    Every rank sends or receives its part over the NICs of its own device.

    Args:
        question: Candidates of a prefill or decode worker.
        tokens_C: Tokens in the KV cache (C,).
    """
    nodes = [system.node for system in question.placement.systems]
    nic_S = np.array([node.nic_bandwidth * node.nics / node.devices for node in nodes])
    cache_C = kv_bytes_per_sequence(
        question.model.network, question.formats.kv, question.plan, tokens_C
    )
    link_s_C: FloatArray = cache_C / nic_S[question.placement.index_C]
    return link_s_C


def first_from(question: Candidates) -> str:
    """Return the origin of the first token, as in `engines.Disaggregation`.

    Args:
        question: Candidates of a prefill worker.
    """
    return question.profile.disaggregation.first_from


def fabric_latency_s(question: Candidates) -> FloatArray:
    """Return the inter-node latency (C,) [s]."""
    latency_S = np.array([system.fabric.latency_s for system in question.placement.systems])
    latency_s_C: FloatArray = latency_S[question.placement.index_C]
    return latency_s_C


class Decoding(NamedTuple):
    """Times of a sequence at its decode worker (C,) [s]."""

    joins_s: FloatArray  # Until it joins the decode batch
    token_s: FloatArray  # Per output token
    step_s: FloatArray  # Per step
    rest_s: FloatArray  # Total of its steps


@dataclass(frozen=True, kw_only=True)
class PoolLoad:
    """Workers and requests in flight of two pools, each (C,)."""

    prefill_workers: FloatArray  # Replicas of the prefill pool
    decode_workers: FloatArray  # Replicas of the decode pool
    # Requests in flight over the deployment, inf if limited only by the workers
    concurrency: FloatArray
    # Equal to `concurrency` if the decode batch is derived from it, otherwise 0. Some workers then
    # have one request more than the batch used to price steps.
    derived: FloatArray


class PrefillWorker(NamedTuple):
    """What the latencies of a deployment depend on of its prefill workers, each (C,)."""

    gpus: FloatArray  # Devices of a worker
    sequences: FloatArray  # Prompts of a batch
    isl: FloatArray  # Input tokens
    osl: FloatArray  # Output tokens of the requests of a worker
    late_s: FloatArray  # Delay of the first token between engine and client [s]
    low_late_s: FloatArray  # Lower end of its interval [s]
    high_late_s: FloatArray  # Upper end of its interval [s]
    response_s: FloatArray  # From the last token to the end of the response [s]
    link_s: FloatArray  # Transfer time of a KV cache over the NICs of a worker [s]
    latency_s: FloatArray  # Inter-node latency [s]
    in_flight: FloatArray  # Batches that a worker runs at the same time, in its pipeline stages
    latencies: FloatArray  # Time of a batch [s]
    low: FloatArray  # Lower end of its interval [s]
    high: FloatArray  # Upper end of its interval [s]

    @classmethod
    def of(cls, question: Candidates, results: Evaluation | LoadResults) -> PrefillWorker:
        """Return the columns of prefill workers."""
        seen, plan, load = client_side(question), question.plan, question.load
        sooner, later = client_ends(question)
        return cls(
            gpus=plan.gpus_per_replica,
            sequences=load.sequences,
            isl=load.isl,
            osl=load.osl,
            late_s=seen.late_s,
            low_late_s=sooner.late_s,
            high_late_s=later.late_s,
            response_s=seen.response_s,
            link_s=cache_link_s(question, load.isl),
            latency_s=fabric_latency_s(question),
            in_flight=results.in_flight,
            latencies=results.latencies.ttft_s,
            low=results.low.ttft_s,
            high=results.high.ttft_s,
        )

    def at(self, index: IntArray) -> PrefillWorker:
        """Return the workers at the given positions."""
        return PrefillWorker(*(values[index] for values in self))


class DecodeWorker(NamedTuple):
    """What the latencies of a deployment depend on of its decode workers, each (C,)."""

    gpus: FloatArray  # Devices of a worker
    sequences: FloatArray  # Sequences of a batch
    osl: FloatArray  # Output tokens
    tokens_per_step: FloatArray  # Mean tokens of a sequence and step
    ahead: FloatArray  # Steps scheduled ahead of the running one
    link_s: FloatArray  # Transfer time of a KV cache of a prompt over the NICs of a worker [s]
    latencies: FloatArray  # Time per output token [s]
    low: FloatArray  # Lower end of its interval [s]
    high: FloatArray  # Upper end of its interval [s]

    @classmethod
    def of(cls, question: Candidates, results: Evaluation | LoadResults) -> DecodeWorker:
        """Return the columns of decode workers."""
        load = question.load
        return cls(
            gpus=question.plan.gpus_per_replica,
            sequences=load.sequences,
            osl=load.osl,
            tokens_per_step=question.tokens_per_step_to_end,
            ahead=steps_ahead(question),
            link_s=cache_link_s(question, load.isl),
            latencies=results.latencies.tpot_s,
            low=results.low.tpot_s,
            high=results.high.tpot_s,
        )

    def at(self, index: IntArray) -> DecodeWorker:
        """Return the workers at the given positions."""
        return DecodeWorker(*(values[index] for values in self))


@dataclass(frozen=True, kw_only=True)
class PoolTimes:
    """Latencies and rates of deployments of prefill and decode workers, each (C,)."""

    load: PoolLoad  # Workers and requests in flight
    prefill: PrefillWorker
    decode: DecodeWorker
    first_from: str  # Origin of the first token, as in `engines.Disaggregation`

    @cached_property
    def gpus(self) -> FloatArray:
        """The number of devices of both pools (C,)."""
        first, second = self.prefill.gpus, self.decode.gpus
        both: FloatArray = first * self.load.prefill_workers + second * self.load.decode_workers
        return both

    @cached_property
    def transfer_s(self) -> FloatArray:
        """The transfer time of one request's KV cache to a decode worker (C,) [s].

        Limits: No contention, no overlap with the prefill, workers in different scale-up domains.
        """
        slower_C = np.maximum(self.prefill.link_s, self.decode.link_s)
        transfer_C: FloatArray = slower_C + self.prefill.latency_s
        return transfer_C

    @cached_property
    def predicted(self) -> Latencies:
        """The predicted latencies seen by a client, and the output tokens/s."""
        return self.latencies("latencies")

    def latencies(self, quantile: str) -> Latencies:
        """Return the latencies seen by a client, and the output tokens/s of the deployment.

        The rate is that of the slower pool, at most what the requests in flight allow (Little's
        law). TPOT covers the first to the last token seen by the client, including a transfer
        between them.

        Limits: The interval does not account for decode workers that idle because of slower
            prefills.

        Args:
            quantile: "latencies", "low" or "high" of the pools' evaluations.
        """
        osl = self.decode.osl
        parts = self.decoding(quantile)
        worker = self.prefill
        late = {"latencies": worker.late_s, "low": worker.low_late_s, "high": worker.high_late_s}
        ended = getattr(worker, quantile) + late[quantile]
        between_s = self.transfer_s + parts.joins_s
        first, last = ended + between_s, ended + between_s + parts.rest_s
        tpot_s = parts.token_s
        if self.first_from == "prefill":
            first = ended
            last = np.where(osl > 1.0, last, ended)  # a single output token needs no decode worker
            tpot_s = tpot_s + between_s / np.maximum(osl - 1.0, 1.0)
        elif self.first_from == "recomputed":
            first = first + parts.step_s
        busy_s = np.maximum(parts.joins_s + parts.rest_s, MIN_BUSY_S)
        in_flight = np.maximum(self.load.decode_workers * self.decode.sequences, self.load.derived)
        served = np.minimum(self.prefill_rate(quantile), in_flight / busy_s)
        rate = np.minimum(served, self.load.concurrency / (last + self.prefill.response_s))
        if quantile == "high":
            first = np.full_like(first, np.nan)  # a lower limit without queueing
        return Latencies(first, tpot_s, last, rate * osl)

    def decoding(self, quantile: str) -> Decoding:
        """Return the times of a sequence at its decode worker.

        Args:
            quantile: As for `latencies`.
        """
        token_s: FloatArray = getattr(self.decode, quantile)
        step_s = token_s * self.decode.tokens_per_step
        again_s = step_s if self.first_from == "recomputed" else np.zeros_like(step_s)
        rest_s = again_s + token_s * (self.decode.osl - 1.0)
        joining = Joining(
            step_s=step_s,
            others=self.decode.sequences - 1.0,
            ahead=self.decode.ahead,
            away_s=self.prefill.latencies + self.transfer_s,
            reads=np.ones_like(step_s),
        )
        return Decoding(joining_s(joining, rest_s), token_s, step_s, rest_s)

    def prefill_rate(self, quantile: str) -> FloatArray:
        """Return the maximum request rate of the prefill pool (C,) [1/s].

        Args:
            quantile: As for `latencies`.
        """
        prompts_C = self.load.prefill_workers * self.prefill.sequences * self.prefill.in_flight
        rate_C: FloatArray = prompts_C / getattr(self.prefill, quantile)
        return rate_C

    def columns(self) -> dict[str, FloatArray]:
        """Return latencies and rates with their intervals, each (C,)."""
        latencies = (self.predicted, self.latencies("low"), self.latencies("high"))
        return interval_columns(latencies, self.gpus, self.decode.osl)

    def energy(self, prefill: TokenEnergy, decode: TokenEnergy) -> TokenEnergy:
        """Return the energy of output tokens over both pools.

        Prompts that follow one another in the pipeline of a prefill worker fill its bubbles: these
        are at most the time of its GPUs beside kernels, at the rate of both pools.

        Args:
            prefill: That of prefill workers, over the output tokens of their requests.

        Limits: The transfer of the KV cache between the pools is left out.
        """
        # a worker's request has one output token
        tokens = self.prefill.osl / self.decode.osl
        gpus = self.prefill.gpus * self.load.prefill_workers
        kernels_j = prefill.prefill_kernels_j * tokens
        awake_j = prefill.on_w * gpus / self.predicted.output_tokens_per_s
        prompts = prefill._replace(
            prefill_j=prefill.prefill_j * tokens,
            prefill_kernels_j=kernels_j,
            prefill_width_j=prefill.prefill_width_j * tokens,
            prefill_bubble_j=np.minimum(
                prefill.prefill_bubble_j * tokens, np.maximum(awake_j - kernels_j, 0.0)
            ),
        )
        return pooled_energy(prompts, decode, gpus / self.gpus)
