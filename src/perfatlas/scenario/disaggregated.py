"""Disaggregated serving in closed form: a prefill pool and a decode pool with matched rates.

A prompt runs, its cache travels, its sequence joins those that decode. Whose first token a client
gets is the engine's: that of the prefill worker as its prompt ends, the same as the sequence joins,
or the one that the decode worker computes again.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.parallelism import kv_bytes_per_sequence, stage_share
from perfatlas.scenario.estimate_warnings import question_warnings
from perfatlas.scenario.evaluation import steps_ahead
from perfatlas.scenario.front_end import client_side, said_of_client
from perfatlas.scenario.results import interval_columns
from perfatlas.scenario.serving_formula import Joining, Latencies, Prompt, joining_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.evaluation import Evaluation
    from perfatlas.scenario.resolved_scenario import Question
    from perfatlas.scenario.vocabulary import Scenario

SHORTEST_S: Final = 1e-12  # at a decode worker, where nothing is left to do there
ROUNDING: Final = 1e-9  # relative; two equal rates computed in different order
POOLS: Final = (
    "disaggregated: the cache travels over one NIC per device without contention; no queueing in"
    " either pool; throughput is that of the slower pool"
)
FIRST_TOKEN: Final = {
    "prefill": "the first token is the prefill worker's, seen as its prompt ends",
    "arrival": "the first token is the prefill worker's, seen as the sequence joins those that"
    " decode",
    "recomputed": "the first token is the decode worker's, computed from the last token of the"
    " prompt when the cache has come",
}
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


class _Decoding(NamedTuple):
    """Times of a sequence at its decode worker (C,) [s].

    Args:
        joins_s: To join those that decode.
        token_s: For an output token.
        step_s: Of a step.
        rest_s: Of all its steps.
    """

    joins_s: FloatArray
    token_s: FloatArray
    step_s: FloatArray
    rest_s: FloatArray


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

    def prompt_s(self, quantile: str = "latencies") -> FloatArray:
        """Return how long a prefill worker is at its prompts (C,) [s].

        Args:
            quantile: As for `latencies`.
        """
        prompt_C: FloatArray = getattr(self.prefill[1], quantile).ttft_s
        return prompt_C

    def latencies(self, quantile: str) -> Latencies:
        """Return what a user sees, and the output tokens/s of the deployment.

        The rate is that of the slower pool, and never more than the requests in flight allow
        (Little's law). TPOT is from the first token a user sees to the last, so that a transfer
        between the two is part of it.

        Limits: What a slower prompt leaves free at the decode workers is not in the ends of the
            interval.

        Args:
            quantile: "latencies", "low" or "high" of the pools' evaluations.
        """
        question, seen = self.decode[0], client_side(self.prefill[0])
        osl = question.load.osl
        parts = self._decoding(quantile)
        ended = self.prompt_s(quantile) + seen.late_s
        between_s = self.transfer_s() + parts.joins_s
        first, last = ended + between_s, ended + between_s + parts.rest_s
        tpot_s = parts.token_s
        if self.first_from == "prefill":
            first = ended
            last = np.where(osl > 1.0, last, ended)  # one token needs no decode worker
            tpot_s = tpot_s + between_s / np.maximum(osl - 1.0, 1.0)
        elif self.first_from == "recomputed":
            first = first + parts.step_s
        busy_s = np.maximum(parts.joins_s + parts.rest_s, SHORTEST_S)
        held = np.maximum(
            self._workers("decode_workers") * question.load.sequences, self._derived()
        )
        served = np.minimum(self._prefill_rate(quantile), held / busy_s)
        rate = np.minimum(served, self._in_flight() / (last + seen.response_s))
        if quantile == "high":
            first = np.full_like(first, np.nan)  # a floor that leaves queueing out
        return Latencies(first, tpot_s, last, rate * osl)

    def prompt(self, place: int) -> Prompt:
        """Return what one candidate spends on a prompt and a request, for both pools together.

        Args:
            place: The candidate.
        """
        late_s = float(client_side(self.prefill[0]).late_s[place])
        request_s = float(self.latencies("latencies").request_latency_s[place]) - late_s
        return Prompt(float(self.prompt_s()[place]), request_s)

    @property
    def first_from(self) -> str:
        """Whose first token a user sees, as in `engines.Disaggregation`."""
        return self.prefill[0].profile.disaggregation.first_from

    def _decoding(self, quantile: str) -> _Decoding:
        """Return the times of a sequence at its decode worker."""
        question = self.decode[0]
        token_s: FloatArray = getattr(self.decode[1], quantile).tpot_s
        step_s = token_s * question.tokens_per_step_to_end
        again_s = step_s if self.first_from == "recomputed" else np.zeros_like(step_s)
        rest_s = again_s + token_s * (question.load.osl - 1.0)
        joining = Joining(
            step_s=step_s,
            others=question.load.sequences - 1.0,
            ahead=steps_ahead(question),
            away_s=self.prompt_s() + self.transfer_s(),
        )
        return _Decoding(joining_s(joining, rest_s), token_s, step_s, rest_s)

    def _prefill_rate(self, quantile: str) -> FloatArray:
        """Return the requests/s the prefill pool can take (C,)."""
        question = self.prefill[0]
        # a pipeline takes the next prompts as soon as its slowest stage is free
        share = stage_share(question.model.architecture, question.plan)
        busy_s = self.prompt_s(quantile) * np.where(question.plan.pp > 1, share, 1.0)
        rate_C: FloatArray = self._workers("prefill_workers") * question.load.sequences / busy_s
        return rate_C

    def all_warnings(self, simulated: Sequence[bool]) -> list[tuple[str, ...]]:
        """Return what the user should know of both pools before trusting each answer (C).

        Args:
            simulated: Whether a simulation replaces the closed forms of a candidate (C).
        """
        prefill = question_warnings(*self.prefill, ("prefill",))
        decode = question_warnings(*self.decode, ("decode",))
        return [
            tuple(dict.fromkeys((*prefill[c], *decode[c], *(() if replaced else emptier))))
            for c, (replaced, emptier) in enumerate(zip(simulated, self._emptier(), strict=True))
        ]

    def _emptier(self) -> list[tuple[str, ...]]:
        """Return whether prefill leaves the decode pool emptier than priced, in a sentence (C)."""
        rate_C, osl_C = self._prefill_rate("latencies"), self.decode[0].load.osl
        seen, rest_s_C = self.latencies("latencies"), self._decoding("latencies").rest_s
        most_C = seen.output_tokens_per_s * (1.0 + ROUNDING)
        said: list[tuple[str, ...]] = [()] * len(self.scenarios)
        for c in np.flatnonzero(rate_C * osl_C <= most_C).tolist():  # else decode limits, or load
            rate, asked = float(rate_C[c]), self.scenarios[c].concurrency
            held = float(self.decode[0].load.sequences[c])
            reached = rate * float(rest_s_C[c]) / self.scenarios[c].decode_workers
            running = rate * float(seen.request_latency_s[c])
            texts = []
            if asked and asked - running >= 1.0:
                texts.append(
                    f"{asked} requests in flight were asked, about {running:.0f} run at a time; the"
                    " rest queue and TTFT leaves that out"
                )
            if osl_C[c] > 1.0 and held - max(reached, 1.0) >= 1.0:
                texts.append(
                    f"TPOT is priced at {held:g} sequences per decode worker, about {reached:.2g}"
                    " are reached: it is too long"
                )
            if texts:
                first = f"prefill limits the rate to {rate:.3g} requests/s"
                said[c] = ("; ".join((first, *texts, "use more prefill_workers")),)
        return said

    def _in_flight(self) -> FloatArray:
        """Requests in flight over the deployment (C,), infinite where only workers limit them."""
        return np.array([float(s.concurrency or np.inf) for s in self.scenarios])

    def _derived(self) -> FloatArray:
        """Requests in flight where the batch is derived from them (C,), else 0.

        Some workers then hold one more than the batch that steps are priced at.
        """
        return np.array(
            [0.0 if s.decode_batch else float(s.concurrency or 0) for s in self.scenarios]
        )

    def said(self) -> str:
        """Return what the closed forms take of both pools, a sentence."""
        client = said_of_client(self.prefill[0])
        return f"{POOLS}; {FIRST_TOKEN[self.first_from]}; {client}"

    def columns(self) -> dict[str, FloatArray]:
        """Return the result columns of the deployment, each (C,)."""
        gpus = self.gpus()
        latencies = (self.latencies("latencies"), self.latencies("low"), self.latencies("high"))
        columns = interval_columns(latencies, gpus, self.decode[0].load.osl)
        alone = (self.decode[0].load.osl <= 1.0) & (self.first_from == "prefill")
        travels_s = np.where(alone, np.nan, self.transfer_s())  # nothing goes
        return columns | {"gpus": gpus, "kv_transfer_s": travels_s}
