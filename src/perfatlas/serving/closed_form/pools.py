"""Closed-form disaggregated serving: a prefill pool and a decode pool with matched rates.

A prompt runs, its KV cache is transferred, and its sequence joins the decode batch. By engine, the
client gets its first token from the prefill worker when the prompt ends, from the prefill worker
when the sequence joins the batch, or from the decode worker, which recomputes it.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import numpy as np

from perfatlas.parallelism import kv_bytes_per_sequence, stage_share
from perfatlas.serving.closed_form.composition import steps_ahead
from perfatlas.serving.closed_form.energy import TokenEnergy, pooled_energy
from perfatlas.serving.closed_form.front_end import client_note, client_side
from perfatlas.serving.closed_form.latencies import Joining, Latencies, Prompt, joining_s
from perfatlas.serving.closed_form.results import energy_columns, interval_columns

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.serving.closed_form.evaluation import Evaluation
    from perfatlas.serving.closed_form.shared_steps import LoadResults
    from perfatlas.step import Candidates

Evaluated = TypeVar("Evaluated", bound="Evaluation | LoadResults")
SHORTEST_S: Final = 1e-12  # at a decode worker without remaining work
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
        question.model.architecture, question.formats.kv, question.plan, tokens_C
    )
    link_s_C: FloatArray = cache_C / nic_S[question.placement.index_C]
    return link_s_C


def fabric_latency_s(question: Candidates) -> FloatArray:
    """Return the inter-node latency (C,) [s].

    Args:
        question: Candidates of a worker.
    """
    latency_S = np.array([system.fabric.latency_s for system in question.placement.systems])
    latency_s_C: FloatArray = latency_S[question.placement.index_C]
    return latency_s_C


class Decoding(NamedTuple):
    """Times of a sequence at its decode worker (C,) [s].

    Args:
        joins_s: Until it joins the decode batch.
        token_s: Per output token.
        step_s: Per step.
        rest_s: Total of its steps.
    """

    joins_s: FloatArray
    token_s: FloatArray
    step_s: FloatArray
    rest_s: FloatArray


@dataclass(frozen=True, kw_only=True)
class PoolLoad:
    """Workers and requests in flight of two pools, each (C,).

    Args:
        prefill_workers: Replicas of the prefill pool.
        decode_workers: Replicas of the decode pool.
        concurrency: Requests in flight over the deployment, inf if limited only by the workers.
        derived: Equal to `concurrency` if the decode batch is derived from it, otherwise 0. Some
            workers then have one request more than the batch used to price steps.
    """

    prefill_workers: FloatArray
    decode_workers: FloatArray
    concurrency: FloatArray
    derived: FloatArray


@dataclass(frozen=True, kw_only=True)
class PoolRates(Generic[Evaluated]):
    """Results of both pools for the same candidates.

    Args:
        load: Workers and requests in flight.
        prefill: Candidates and results of a prefill worker.
        decode: Candidates and results of a decode worker.
    """

    load: PoolLoad
    prefill: tuple[Candidates, Evaluated]
    decode: tuple[Candidates, Evaluated]

    def gpus(self) -> FloatArray:
        """Return the number of devices of both pools (C,)."""
        one_prefill = self.prefill[0].plan.gpus_per_replica
        one_decode = self.decode[0].plan.gpus_per_replica
        return one_prefill * self.load.prefill_workers + one_decode * self.load.decode_workers

    def energy(self) -> TokenEnergy:
        """Return the energy of output tokens over both pools.

        Prompts that follow one another in the pipeline of a prefill worker fill its bubbles: these
        are at most the time of its GPUs beside kernels, at the rate of both pools.

        Limits: The transfer of the KV cache between the pools is left out.
        """
        prefill, decode = self.prefill[0], self.decode[0]
        energy = self.prefill[1].energy
        # a worker's request has one output token
        tokens = prefill.load.osl / decode.load.osl
        gpus = prefill.plan.gpus_per_replica * self.load.prefill_workers
        kernels_j = energy.prefill_kernels_j * tokens
        awake_j = energy.on_w * gpus / self.latencies("latencies").output_tokens_per_s
        prompts = energy._replace(
            prefill_j=energy.prefill_j * tokens,
            prefill_kernels_j=kernels_j,
            prefill_bubble_j=np.minimum(
                energy.prefill_bubble_j * tokens, np.maximum(awake_j - kernels_j, 0.0)
            ),
        )
        share = gpus / self.gpus()
        return pooled_energy(prompts, self.decode[1].energy, share)

    @cached_property
    def transfer_s(self) -> FloatArray:
        """The transfer time of one request's KV cache to a decode worker (C,) [s].

        Limits: No contention, no overlap with the prefill, workers in different scale-up domains.
        """
        isl_C = self.prefill[0].load.isl
        both = [cache_link_s(question, isl_C) for question in (self.prefill[0], self.decode[0])]
        transfer_C: FloatArray = np.maximum(*both) + fabric_latency_s(self.prefill[0])
        return transfer_C

    def prompt_s(self, quantile: str = "latencies") -> FloatArray:
        """Return the time of a prefill worker for its prompts (C,) [s].

        Args:
            quantile: As for `latencies`.
        """
        prompt_C: FloatArray = getattr(self.prefill[1], quantile).ttft_s
        return prompt_C

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
        question, seen = self.decode[0], client_side(self.prefill[0])
        osl = question.load.osl
        parts = self.decoding(quantile)
        ended = self.prompt_s(quantile) + seen.late_s
        between_s = self.transfer_s + parts.joins_s
        first, last = ended + between_s, ended + between_s + parts.rest_s
        tpot_s = parts.token_s
        if self.first_from == "prefill":
            first = ended
            last = np.where(osl > 1.0, last, ended)  # a single output token needs no decode worker
            tpot_s = tpot_s + between_s / np.maximum(osl - 1.0, 1.0)
        elif self.first_from == "recomputed":
            first = first + parts.step_s
        busy_s = np.maximum(parts.joins_s + parts.rest_s, SHORTEST_S)
        held = np.maximum(self.load.decode_workers * question.load.sequences, self.load.derived)
        served = np.minimum(self.prefill_rate(quantile), held / busy_s)
        rate = np.minimum(served, self.load.concurrency / (last + seen.response_s))
        if quantile == "high":
            first = np.full_like(first, np.nan)  # a lower limit without queueing
        return Latencies(first, tpot_s, last, rate * osl)

    def prompt(self) -> Prompt:
        """Return the engine time of a prompt and of a request over both pools."""
        late_s = client_side(self.prefill[0]).late_s
        return Prompt(self.prompt_s(), self.latencies("latencies").request_latency_s - late_s)

    @property
    def first_from(self) -> str:
        """Origin of the first token, as in `engines.Disaggregation`."""
        return self.prefill[0].profile.disaggregation.first_from

    def decoding(self, quantile: str) -> Decoding:
        """Return the times of a sequence at its decode worker.

        Args:
            quantile: As for `latencies`.
        """
        question = self.decode[0]
        token_s: FloatArray = getattr(self.decode[1], quantile).tpot_s
        step_s = token_s * question.tokens_per_step_to_end
        again_s = step_s if self.first_from == "recomputed" else np.zeros_like(step_s)
        rest_s = again_s + token_s * (question.load.osl - 1.0)
        joining = Joining(
            step_s=step_s,
            others=question.load.sequences - 1.0,
            ahead=steps_ahead(question),
            away_s=self.prompt_s() + self.transfer_s,
            reads=np.ones_like(step_s),
        )
        return Decoding(joining_s(joining, rest_s), token_s, step_s, rest_s)

    def prefill_rate(self, quantile: str) -> FloatArray:
        """Return the maximum request rate of the prefill pool (C,) [1/s].

        Args:
            quantile: As for `latencies`.
        """
        question = self.prefill[0]
        # a pipeline accepts the next prompts as soon as its slowest stage is free
        share = stage_share(question.model.architecture, question.plan)
        busy_s = self.prompt_s(quantile) * np.where(question.plan.pp > 1, share, 1.0)
        rate_C: FloatArray = self.load.prefill_workers * question.load.sequences / busy_s
        return rate_C

    def notes(self) -> str:
        """Return a remark on the assumptions about both pools."""
        client = client_note(self.prefill[0])
        first, second = (question.profile.id for question, _ in (self.prefill, self.decode))
        alike = f"; {second} is assumed to read the KV cache that {first} hands over"
        rules = POOL_RULES + (alike if first != second else "")
        return f"{rules}; {FIRST_TOKEN[self.first_from]}; {client}"

    def columns(self) -> dict[str, FloatArray]:
        """Return the result columns of the deployment, each (C,)."""
        gpus = self.gpus()
        latencies = (self.latencies("latencies"), self.latencies("low"), self.latencies("high"))
        columns = interval_columns(latencies, gpus, self.decode[0].load.osl)
        columns |= energy_columns(self.energy(), columns, self.decode[0].load.osl)
        alone = (self.decode[0].load.osl <= 1.0) & (self.first_from == "prefill")
        travels_s = np.where(alone, np.nan, self.transfer_s)  # no transfer
        steps = self.prefill[1].utilization._asdict()
        steps |= {
            name: share_C
            for name, share_C in self.decode[1].utilization._asdict().items()
            if name.startswith("decode")
        }
        return columns | steps | {"gpus": gpus, "kv_transfer_s": travels_s}
