"""The steady state of a closed loop, from a short simulation instead of closed forms.

Closed forms know how long a prompt takes. They do not know that prompts wait for each other and
hold up the sequences that decode.

Shape legend: N requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.arrivals import Arriving
from perfatlas.scenario.services import Service, price_ends, run_traffic, service, slowed
from perfatlas.scenario.traffic import Traffic
from perfatlas.serving.closed_form import Prompt, client_side, said_of_client
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import all_at_once, plain_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.engine_deployment import Priced
    from perfatlas.scenario.vocabulary import Scenario
    from perfatlas.step import Candidates

WARM_ROUNDS: Final = 2  # requests per one in flight, before the ones that count
ROUNDS: Final = 8  # requests per one in flight that count
MOST_IN_FLIGHT: Final = 1_000_000  # a simulation keeps rows of all of them, and ten times as many
MOST_ENGINES: Final = 1_000  # beyond, auto does not wait: every event looks at every engine
MOST_STEPS: Final = 2_000_000  # beyond, auto does not wait: some seconds for three runs of them
FEWEST: Final = 24  # requests that count
HELD_BACK: Final = 0.8  # of a step, that its tokens take to be sent, from which on auto waits
NAMES: Final = ("ttft_s", "tpot_s", "request_latency_s")
RATES: Final = ("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user")
# mean number of others at their prompts, from which on waiting matters: each of them adds some part
# of its prompt to a TTFT that is mostly one
WAITING: Final = 0.05
HOW: Final = (
    "method simulate: mean over {count:,} requests of a closed loop that ran before, all of {isl:,}"
    " tokens in and {osl:,} out; {rules}; {client}"
)


class SteadyState(NamedTuple):
    """What a closed loop settles to.

    Args:
        results: By name of the vocabulary, with `_low` and `_high` where an interval is known.
        said: How it was found, a sentence.
    """

    results: dict[str, Any]
    said: str


def steady_state(scenario: Scenario, known: Priced | None = None) -> SteadyState:
    """Return latencies and throughput of a closed loop at the concurrency of a scenario.

    Args:
        scenario: Of mode aggregated, without a concurrency one request per replica; or
            disaggregated, without one the batches of its decode workers, or one each.
        known: Tables of prices of earlier calls, to take from and to add to.

    Raises:
        InvalidSpecError: A name, value or plan breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No scheduler, model or data for the combination.
    """
    concurrency = _in_flight(scenario)
    if concurrency > MOST_IN_FLIGHT:
        raise InvalidSpecError(
            f"concurrency = {concurrency:,}: a steady state is simulated of {MOST_IN_FLIGHT:,}"
            " requests in flight at most; use fewer, or method formula"
        )
    count = max(ROUNDS * concurrency, FEWEST)
    first = WARM_ROUNDS * concurrency
    total = first + count + concurrency  # the last ones run while the loop empties
    osl_N = np.full(total, scenario.osl)
    # those in flight at the start are met at an even spread of their outputs
    osl_N[:concurrency] = np.ceil(scenario.osl * np.arange(1, concurrency + 1) / concurrency)
    requests = plain_requests(all_at_once(total), np.full(total, scenario.isl), osl_N)
    came = Arriving(requests, concurrency, (), ())
    ready = service(scenario, Traffic(routing="least_loaded"), came, known)
    limits, profile = ready.entry.limits, ready.entry.question.profile
    if not limits.chunked_prefill and scenario.isl > limits.max_num_batched_tokens:
        raise InfeasibleError(
            f"{profile.id} rejects prompts of {scenario.isl:,} tokens: a step holds"
            f" {limits.max_num_batched_tokens:,} (max_num_batched_tokens), and it does not divide"
            " prompts by default",
            advice=(f"max_num_batched_tokens = {scenario.isl} holds one", "method formula divides"),
        )
    _check_room(scenario, ready)
    window = slice(first, first + count)
    results = _means(ready, came, window)
    results |= {f"{name}_{end}": None for name in results for end in ("low", "high")}
    for end, factor in price_ends(ready).items():
        other = {"low": "high", "high": "low"}[end]
        for name, value in _means(slowed(ready, factor), came, window).items():
            rate = name.startswith("output_tokens")
            results[f"{name}_{other if rate else end}"] = value
    _widen(results)
    said = HOW.format(
        count=count,
        isl=scenario.isl,
        osl=scenario.osl,
        rules="; ".join(ready.said()),
        client=said_of_client(ready.entry.question),
    )
    return SteadyState(results | {"gpus": ready.gpus}, said)


def _widen(results: dict[str, Any]) -> None:
    """Let every interval hold all that was simulated.

    A loop of equal requests settles to one phase of its steps, and slower steps to another: a time
    may be longer with faster steps.
    """
    for name in (*NAMES, *RATES):
        known = [results[key] for key in (name, f"{name}_low", f"{name}_high")]
        if None not in known:
            results |= {f"{name}_low": min(known), f"{name}_high": max(known)}


def _check_room(scenario: Scenario, ready: Service) -> None:
    """Refuse requests of which a cache does not hold one; the drafts of two steps belong to it.

    Raises:
        InfeasibleError: None would ever run.
    """
    for role, pool in (ready.named or {"": ready.entry}).items():
        limits = pool.limits
        osl = 1 if role == "prefill" else scenario.osl
        tokens = scenario.isl + osl - 1 + 2 * limits.draft_tokens
        room = limits.kv_blocks * limits.block_size
        if tokens <= room:
            continue
        drafts = f" and {limits.draft_tokens} drafts of two steps" if limits.draft_tokens else ""
        where = f"{role} worker: " if role else ""
        raise InfeasibleError(
            f"{where}a request of {scenario.isl:,} + {osl:,} tokens{drafts} needs a cache of"
            f" {tokens:,} tokens; there is one of {room:,}",
            advice=("use more GPUs, a smaller cache format or shorter requests",),
        )


def _in_flight(scenario: Scenario) -> int:
    """Return the requests of a closed loop."""
    if scenario.concurrency:
        return scenario.concurrency
    if scenario.mode == "disaggregated":
        return (scenario.decode_batch or 1) * scenario.decode_workers
    return (scenario.batch or 1) * (scenario.dp or 1)


def _means(ready: Service, came: Arriving, window: slice) -> dict[str, Any]:
    """Return means over the requests that count."""
    outcome = run_traffic(ready, came, Control())
    found = request_latencies(came.requests, outcome, ready.seen)
    counted_N = (found.place_N >= window.start) & (found.place_N < window.stop)
    means: dict[str, Any] = {
        name: _finite(float(getattr(found, name)[counted_N].mean())) for name in NAMES
    }
    if ready.named:
        transfer_s = found.kv_transfer_s[counted_N]
        means["kv_transfer_s"] = _finite(float(transfer_s.mean()))
    # Little's law, the way between client and engine included
    rate = came.concurrency / (means["request_latency_s"] + ready.seen.response_s)
    tokens = float(came.requests.osl_N[-1])
    tpot_s = means["tpot_s"]
    return means | {
        "output_tokens_per_s_per_gpu": rate * tokens / ready.gpus,
        "output_tokens_per_s_per_user": None if tpot_s is None else 1.0 / tpot_s,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def are_pools_simulated(scenario: Scenario, prefill: Candidates, prompt: Prompt) -> bool:
    """Return whether method simulate answers for two pools, as `is_simulated` does for one.

    Without a concurrency the closed forms' pools are full, which no closed loop is.

    Args:
        scenario: Of mode disaggregated.
        prefill: Of a prefill worker.
        prompt: By the closed forms.
    """
    if scenario.method != "auto":
        return scenario.method == "simulate"
    if scenario.concurrency is None:
        return False
    depths = (scenario.prefill_pp or scenario.pp, scenario.decode_pp or scenario.pp)
    known = max(depths) == 1 and scenario.prefix == 0 and _takes_prompt(scenario, prefill)
    known &= prefill.drafts == 0 and _least_steps(scenario, prefill) <= MOST_STEPS
    known &= max(scenario.prefill_workers, scenario.decode_workers) <= MOST_ENGINES
    others = scenario.concurrency / scenario.prefill_workers - 1.0
    return known and others * prompt.engine_s >= WAITING * prompt.request_s


def is_simulated(scenario: Scenario, question: Candidates, results: Mapping[str, Any]) -> bool:
    """Return whether method simulate answers: asked for, or auto where waiting matters.

    Args:
        scenario: As asked.
        question: Of it alone.
        results: Its closed forms: TTFT and request latency.
    """
    if scenario.mode != "aggregated" or scenario.method == "formula":
        return False
    late_s = float(client_side(question).late_s[0])
    prompt = Prompt(results["ttft_s"] - late_s, results["request_latency_s"] - late_s)
    if scenario.method == "simulate":
        return True
    matters = _waiting_matters(question, prompt) or _is_held_back(question, results)
    return matters and _is_known(scenario, question)


def _least_steps(scenario: Scenario, question: Candidates) -> float:
    """Return how many steps the simulation of a steady state has at least.

    Args:
        scenario: What is asked.
        question: Of an engine that runs it.
    """
    limits, ranks = question.limits, float(question.plan.attention_dp[0])
    in_flight = _in_flight(scenario)
    requests = (WARM_ROUNDS + ROUNDS + 1) * in_flight
    tokens = requests * (scenario.isl + scenario.osl) / float(limits.max_num_batched_tokens[0])
    held = in_flight / float(question.plan.dp[0]) / ranks
    sequences = max(min(float(limits.max_num_seqs[0]), held), 1.0)
    return max(tokens / ranks, requests * scenario.osl / sequences / ranks)


def _is_known(scenario: Scenario, question: Candidates) -> bool:
    """Return whether a simulation can tell, in some seconds."""
    known = scenario.pp == 1 and scenario.prefix == 0 and _takes_prompt(scenario, question)
    known &= _least_steps(scenario, question) <= MOST_STEPS
    known &= float(question.plan.dp[0]) <= MOST_ENGINES
    if not known or question.drafts == 0:
        return known
    from perfatlas.serving.policies import names_where

    drafting = names_where(lambda policy: policy.supports_drafts)
    return question.profile.scheduler.rules in drafting


def _waiting_matters(question: Candidates, prompt: Prompt) -> bool:
    """Return whether prompts meet others at their prompts."""
    others = float(question.load.sequences[0]) - 1.0
    return others * prompt.engine_s >= WAITING * prompt.request_s


def _is_held_back(question: Candidates, results: Mapping[str, Any]) -> bool:
    """Return whether a front end is hardly done with the tokens of a step when the next ends."""
    gaps = float(question.load.osl[0]) - 1.0
    between_s = results["request_latency_s"] - results["ttft_s"]
    on_rank = float(question.load.sequences[0] / question.plan.attention_dp[0])
    sends_s = on_rank * float(client_side(question).stream_s[0])
    return gaps > 0.0 and gaps * sends_s > HELD_BACK * between_s


def _takes_prompt(scenario: Scenario, question: Candidates) -> bool:
    """Return whether the engine takes a prompt, in one step or in several."""
    return question.profile.scheduler.chunked_prefill or (
        scenario.isl <= float(question.limits.max_num_batched_tokens[0])
    )
