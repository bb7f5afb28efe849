"""`simulate`: traffic through an engine, from step prices to latencies of requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.engines import step_errors
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.answer import Answer
from perfatlas.scenario.breakdown import breakdown_rows
from perfatlas.scenario.contradictions import read_scenario
from perfatlas.scenario.deployment import (
    SAID,
    Deployment,
    deployment,
    price_ends,
    run_traffic,
    scaled_prices,
)
from perfatlas.scenario.estimate import resolved_formats
from perfatlas.scenario.evidence import engine_assumptions, step_evidence
from perfatlas.scenario.operated import operated_results, operated_warnings
from perfatlas.scenario.repetitions import averaged, half_widths
from perfatlas.scenario.traffic import TRAFFIC_NAMES, Arriving, Traffic, arriving, parse_traffic
from perfatlas.scenario.typical_steps import typical_steps
from perfatlas.serving import (
    Control,
    Outcome,
    Requests,
    Seen,
    request_columns,
    series_columns,
    summarize,
    tail_parts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.scenario.vocabulary import Scenario

    Watch = Callable[[float], bool]


SERIES_ROWS: Final = 2000  # of the state over time


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What was asked, what ran, what came of it.

    Args:
        answer: The envelope.
        requests: What arrived.
        outcome: What came of every request.
        seen: What a client sees later than the engine.
        kv_blocks: Cache blocks of all schedulers.
    """

    answer: Answer
    requests: Requests
    outcome: Outcome
    seen: Seen
    kv_blocks: int

    def series(self) -> dict[str, list[float]]:
        """Return the state of all schedulers over time: requests, and the share of the cache."""
        return series_columns(self.outcome.series, self.kv_blocks)

    def per_request(self) -> dict[str, list[Any]]:
        """Return what came of every request, as columns of a table; times [s]."""
        return request_columns(self.requests, self.outcome, self.seen)


def simulate(
    *,
    progress: Watch | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return what comes of traffic at an inference deployment.

    Args:
        progress: Told now and then which share of the work is done; true stops the simulation and
            keeps what was simulated.
        **fields: Names of the vocabulary: model, system, engine, the plan, formats, engine limits;
            and the traffic: requests, request_rate or concurrency, arrival, isl, osl, seed, slo_*.

    Raises:
        InvalidSpecError: A name, value or request breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas import simulate
        >>> found = simulate(model="meta-llama/Llama-3.1-8B", system="h200_sxm", request_rate=8,
        ...     num_requests=100)
        >>> found.answer.results["requests_completed"]
        100
    """
    traffic, scenario = split_fields(fields)
    came = arriving(traffic, scenario)
    came = came._replace(assumptions=(*came.assumptions, *traffic.said()))
    ready = deployment(scenario, traffic, came)
    repeated: list[_Repetition] = []
    for seed in range(traffic.seed, traffic.seed + traffic.num_seeds):
        again = traffic.model_copy(update={"seed": seed})
        came_again = arriving(again, scenario) if repeated else came
        watch = _part(progress, seed - traffic.seed, traffic.num_seeds)
        repeated.append(_repetition(ready, came_again, again, watch))
        if repeated[-1].outcome.interrupted:
            break
    results = averaged([one.results for one in repeated])
    if len(repeated) > 1:
        results |= half_widths([one.results for one in repeated])
    first = repeated[0]
    return Simulation(
        answer=_answer(ready, came, first.outcome, results, dict(fields)),
        requests=came.requests,
        outcome=first.outcome,
        seen=ready.seen,
        kv_blocks=ready.limits.kv_blocks * ready.replicas.ranks * ready.replicas.number,
    )


class _Repetition(NamedTuple):
    results: dict[str, Any]
    outcome: Outcome


def _repetition(
    ready: Deployment, came: Arriving, traffic: Traffic, watch: Watch | None
) -> _Repetition:
    """Return what comes of traffic of one seed, at the prices and at both ends of theirs."""
    ready = replace(ready, replicas=ready.replicas._replace(seed=traffic.seed))
    ends = price_ends(ready.question)
    runs = 1 + len(ends)
    control = Control(watch=_part(watch, 0, runs), series_rows=SERIES_ROWS)
    outcome = run_traffic(ready, came, ready.table.prices, control)
    results = _results(ready, came, outcome, traffic)
    for number, (end, factor) in enumerate(ends.items(), start=1):
        if outcome.interrupted:
            break
        control = Control(watch=_part(watch, number, runs))
        moved = run_traffic(ready, came, scaled_prices(ready.table.prices, factor), control)
        if moved.interrupted:
            break
        results |= _end(summarize(came.requests, moved, traffic.objectives(), ready.seen), end)
    return _Repetition(results, outcome)


def _part(watch: Watch | None, number: int, parts: int) -> Watch | None:
    """Return what watches one of some equal parts and tells the share of all."""
    if watch is None:
        return None
    return lambda share: watch((number + share) / parts)


def split_fields(fields: Mapping[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields.

    Raises:
        InvalidSpecError: A name or value breaks a rule.
    """
    traffic = parse_traffic({name: v for name, v in fields.items() if name in TRAFFIC_NAMES})
    rest = {name: v for name, v in fields.items() if name not in TRAFFIC_NAMES}
    if rest.get("mode") not in (None, "", "aggregated"):
        raise UnsupportedError(
            f"mode = {rest['mode']}: simulate runs mode aggregated; estimate answers the others"
        )
    for name in ("method", "batch", "prefix"):
        if rest.get(name) not in (None, "", 0):
            raise InvalidSpecError(f"simulate does not read {name}; leave it out")
    return traffic, read_scenario({**rest, "mode": "aggregated"})


def _end(found: Mapping[str, Any], end: str) -> dict[str, Any]:
    """Return the results at one end of the interval, by name; rates have the other end."""
    other = {"low": "high", "high": "low"}[end]
    rates = ("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slo_attainment")
    times = ("ttft_s", "tpot_s", "itl_s", "request_latency_s", "queue_s", "makespan_s")
    ends = {f"{name}_{end}": found[name] for name in times}
    return ends | {f"{name}_{other}": found[name] for name in rates if name in found}


def _results(
    ready: Deployment, came: Arriving, outcome: Outcome, traffic: Traffic
) -> dict[str, Any]:
    found = summarize(came.requests, outcome, traffic.objectives(), ready.seen)
    found |= tail_parts(came.requests, outcome, ready.table.prices, ready.limits, ready.seen)
    question = ready.question
    if came.concurrency:
        found["saturated"] = False
    gpus = int(question.plan.ranks[0])
    rate = found["output_tokens_per_s"]
    ranks = ready.replicas.ranks
    plain = {
        "gpus": gpus,
        "output_tokens_per_s_per_gpu": None if rate is None else rate / gpus,
        "kv_capacity_tokens": ready.limits.kv_blocks * ready.limits.block_size * ranks,
        "kv_blocks": ready.limits.kv_blocks,
    }
    return found | plain | operated_results(ready, outcome, found)


def _answer(
    ready: Deployment,
    came: Arriving,
    outcome: Outcome,
    results: dict[str, Any],
    asked: dict[str, Any],
) -> Answer:
    question = ready.question
    steps = typical_steps(ready, came.requests, outcome)
    error = step_errors().get(question.profile.name)
    standing = [
        SAID[ready.limits.rules],
        *came.assumptions,
        steps.said,
        _client(ready),
        *engine_assumptions(question),
    ]
    if error is not None:
        standing.append(
            f"the interval scales every step by {math.expm1(error.q05):+.0%} to"
            f" {math.expm1(error.q95):+.0%}, as {error.runs:,} serving runs on {error.engine} were"
            f" beside their predictions (`{error.command}`); arrivals and lengths stay"
        )
    given = {name: value for name, value in asked.items() if value is not None}
    return Answer(
        command="simulate",
        scenario=given | resolved_formats(question) | _resolved_limits(ready),
        results=results,
        breakdown=[
            *breakdown_rows(steps.prefill, "prefill", 0),
            *breakdown_rows(steps.decode, "decode", 0),
        ],
        evidence=step_evidence(question, ready.table, standing),
        warnings=(*came.warnings, *_warnings(results)),
    )


def _client(ready: Deployment) -> str:
    if sum(ready.seen) == 0.0:
        return "latencies inside the engine: HTTP, tokenizing and detokenizing take no time"
    return (
        f"a client sees a request enter the queue {1e3 * ready.seen.request_s:.1f} ms late and a"
        f" token {1e6 * ready.seen.token_s:.0f} us late: {ready.question.profile.front.source}"
    )


def _resolved_limits(ready: Deployment) -> dict[str, Any]:
    return {
        "max_num_seqs": int(ready.question.limits.max_num_seqs[0]),
        "max_num_batched_tokens": ready.limits.max_num_batched_tokens,
    }


def _warnings(results: Mapping[str, Any]) -> list[str]:
    said = []
    if results["saturated"]:
        said.append(
            "requests come faster than they are served: the queue grows to the last arrival, and"
            " latencies depend on how long the traffic lasts"
        )
    if results["requests_rejected"]:
        said.append(
            f"{results['requests_rejected']:,} requests need more cache than there is"
            f" ({results['kv_capacity_tokens']:,} tokens) and were rejected"
        )
    said += operated_warnings(results)
    if results["interrupted"]:
        said.append("interrupted: only what was simulated until then is counted, no interval")
    return said
