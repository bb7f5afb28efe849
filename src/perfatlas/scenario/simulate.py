"""`simulate`: traffic through an engine, from step prices to latencies of requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.engines import step_errors
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.answer import Answer
from perfatlas.scenario.cache_tiers import tier_results
from perfatlas.scenario.contradictions import read_scenario
from perfatlas.scenario.estimate import resolved_formats
from perfatlas.scenario.evidence import engine_assumptions, merged_evidence, step_evidence
from perfatlas.scenario.kinds import (
    kind_column,
    kind_results,
    kinds_evidence,
    of_all,
    resolved_kinds,
)
from perfatlas.scenario.operated import operated_results, operated_warnings, saturation_warning
from perfatlas.scenario.repetitions import averaged, half_widths
from perfatlas.scenario.replica_kinds import shared_fields
from perfatlas.scenario.service import (
    Service,
    fleet_of,
    price_ends,
    reseeded,
    run_traffic,
    service,
    slowed,
)
from perfatlas.scenario.traffic import TRAFFIC_NAMES, Arriving, Traffic, arriving, parse_traffic
from perfatlas.scenario.typical_steps import shown_steps
from perfatlas.serving import (
    TICKS_PER_SECOND,
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
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.scenario.answer import Evidence
    from perfatlas.scenario.question import Question
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
        kinds: Replicas of each kind, where there are several.
    """

    answer: Answer
    requests: Requests
    outcome: Outcome
    seen: Seen
    kv_blocks: int
    kinds: tuple[int, ...] = ()

    def series(self) -> dict[str, list[float]]:
        """Return the state of all schedulers over time: requests, and the share of the cache."""
        return series_columns(self.outcome.series, self.kv_blocks)

    def per_request(self) -> dict[str, list[Any]]:
        """Return what came of every request, as columns of a table; times [s]."""
        columns = request_columns(self.requests, self.outcome, self.seen)
        if self.kinds:
            columns["kind"] = kind_column(self.kinds, columns["replica"])
        return columns


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
            mode disaggregated with prefill_* and decode_* for two pools, or replica_kinds for
            unequal replicas; and the traffic: requests, request_rate or concurrency, arrival, isl,
            osl, seed, slo_*.

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
    ready = service(scenario, traffic, came)
    repeated: list[_Repetition] = []
    interrupted = False
    for seed in range(traffic.seed, traffic.seed + traffic.num_seeds):
        again = traffic.model_copy(update={"seed": seed})
        came_again = arriving(again, scenario) if repeated else came
        watch = _part(progress, seed - traffic.seed, traffic.num_seeds)
        one = _repetition(ready, came_again, again, watch)
        interrupted = one.results["interrupted"]
        if not (interrupted and repeated):  # one that is not whole counts where there is no other
            repeated.append(one)
        if interrupted:
            break
    results = averaged([one.results for one in repeated]) | {"interrupted": interrupted}
    if len(repeated) > 1:
        results |= half_widths([one.results for one in repeated])
    return _simulation(
        ready, came, _Repetition(results, repeated[0].outcome), (traffic, scenario, fields)
    )


def simulated(
    ready: Service, came: Arriving, outcome: Outcome, fields: Mapping[str, Any]
) -> Simulation:
    """Return the simulation of traffic that ran already, without an interval.

    Args:
        ready: What served it.
        came: What arrived.
        outcome: What came of it.
        fields: What is asked, as for `simulate`.
    """
    traffic, scenario = split_fields(fields)
    one = _Repetition(_results(ready, came, outcome, traffic), outcome)
    return _simulation(ready, came, one, (traffic, scenario, fields))


class _Repetition(NamedTuple):
    results: dict[str, Any]
    outcome: Outcome


def _simulation(
    ready: Service,
    came: Arriving,
    one: _Repetition,
    asked: tuple[Traffic, Scenario, Mapping[str, Any]],
) -> Simulation:
    traffic, scenario, fields = asked
    came = came._replace(assumptions=(*came.assumptions, *traffic.said()))
    return Simulation(
        answer=_answer(ready, came, one.outcome, one.results, (scenario, dict(fields))),
        requests=came.requests,
        outcome=one.outcome,
        seen=ready.seen,
        kv_blocks=ready.kv_blocks,
        kinds=tuple(pool.replicas.number for pool in ready.pools) if ready.kinds else (),
    )


def _repetition(
    ready: Service, came: Arriving, traffic: Traffic, watch: Watch | None
) -> _Repetition:
    """Return what comes of traffic of one seed, at the prices and at both ends of theirs."""
    ready = reseeded(ready, traffic.seed)
    ends = price_ends(ready)
    runs = 1 + len(ends)
    control = Control(watch=_part(watch, 0, runs), series_rows=SERIES_ROWS)
    outcome = run_traffic(ready, came, control)
    stopped = watch is not None and watch(1 / runs)
    results = _results(ready, came, outcome, traffic)
    interval: dict[str, Any] = {}
    for number, (end, factors) in enumerate(ends.items(), start=1):
        if outcome.interrupted or stopped:
            return _Repetition(results | {"interrupted": True}, outcome)
        control = Control(watch=_part(watch, number, runs))
        moved = run_traffic(slowed(ready, factors), came, control)
        if moved.interrupted:
            return _Repetition(results | {"interrupted": True}, outcome)
        interval |= _end(summarize(came.requests, moved, traffic.objectives(), ready.seen), end)
        stopped = watch is not None and watch((number + 1) / runs)
    return _Repetition(results | interval, outcome)


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
    if traffic.replica_kinds is not None:
        rest = shared_fields(rest, traffic)
    mode = rest.get("mode") or "aggregated"
    if mode == "static":
        raise UnsupportedError(
            "mode = static: simulate runs mode aggregated, or disaggregated; estimate answers it"
        )
    for name in ("method", "batch", "prefix"):
        if rest.get(name) not in (None, "", 0):
            raise InvalidSpecError(f"simulate does not read {name}; leave it out")
    return traffic, read_scenario({**rest, "mode": mode}, queues=True)


def _end(found: Mapping[str, Any], end: str) -> dict[str, Any]:
    """Return the results at one end of the interval, by name; rates have the other end."""
    other = {"low": "high", "high": "low"}[end]
    rates = ("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slo_attainment")
    times = (
        *("ttft_s", "tpot_s", "itl_s", "request_latency_s", "queue_s", "makespan_s"),
        "kv_transfer_s",
    )
    ends = {f"{name}_{end}": found[name] for name in times if name in found}
    return ends | {f"{name}_{other}": found[name] for name in rates if name in found}


def _results(ready: Service, came: Arriving, outcome: Outcome, traffic: Traffic) -> dict[str, Any]:
    found = summarize(came.requests, outcome, traffic.objectives(), ready.seen)
    entry, decoding = ready.entry, ready.decoding
    found |= tail_parts(came.requests, outcome, fleet_of(ready).kinds, ready.seen)
    if came.concurrency:
        found["saturated"] = False
    rate = found["output_tokens_per_s"]
    smallest = min(ready.pools, key=lambda kind: kind.capacity_tokens) if ready.kinds else decoding
    found |= {
        "gpus": ready.gpus,
        "output_tokens_per_s_per_gpu": None if rate is None else rate / ready.gpus,
        "kv_capacity_tokens": smallest.capacity_tokens,
        "kv_blocks": smallest.limits.kv_blocks,
    }
    found |= tier_results(entry.limits, entry.tiers.block_bytes, came.requests, outcome)
    if ready.kinds:
        found |= kind_results(ready, came.requests, outcome, found["makespan_s"])
    if not ready.named:
        return found | operated_results(entry, outcome, found)
    makespan_s = found["makespan_s"]
    first = 0
    for role, pool in ready.named.items():
        busy_F = outcome.busy_F[first : first + pool.replicas.number]
        first += pool.replicas.number
        busy_s = float(busy_F.mean()) / TICKS_PER_SECOND
        found[f"{role}_utilization"] = busy_s / makespan_s if makespan_s else None
    return found | {
        "prefill_kv_capacity_tokens": entry.capacity_tokens,
        "prefill_kv_blocks": entry.limits.kv_blocks,
        "memory": decoding.held_memory(),
        "prefill_memory": entry.held_memory(),
    }


def _answer(
    ready: Service,
    came: Arriving,
    outcome: Outcome,
    results: dict[str, Any],
    asked: tuple[Scenario, dict[str, Any]],
) -> Answer:
    question = ready.decoding.question
    rows, shown = shown_steps(ready, came.requests, outcome)
    standing = [*ready.said(), *came.assumptions, *shown, _client(ready)]
    if not ready.kinds:
        standing += engine_assumptions(question)
    standing += _interval(ready)
    scenario, fields = asked
    given = {name: value for name, value in fields.items() if value is not None}
    formats = of_all([resolved_formats(pool.question) for pool in ready.pools])
    return Answer(
        command="simulate",
        scenario=given | formats | _resolved(ready, scenario),
        results=results,
        breakdown=rows,
        evidence=_evidence(ready, standing),
        warnings=(*came.warnings, *_too_long(question, came), *_warnings(results)),
    )


def _interval(ready: Service) -> list[str]:
    """Return what the interval is made of, a sentence for each engine."""
    if not price_ends(ready):
        return []
    known = step_errors()
    names = dict.fromkeys(pool.question.profile.name for pool in ready.pools)
    errors = [error for name in names if (error := known.get(name)) is not None]
    step = "every step of {}" if len(errors) > 1 else "every step"
    return [
        f"the interval scales {step.format(error.engine)} by {math.expm1(error.q05):+.0%} to"
        f" {math.expm1(error.q95):+.0%}, as {error.runs:,} serving runs on {error.engine} were"
        f" beside their predictions (`{error.command}`); arrivals and lengths stay"
        for error in errors
    ]


def _evidence(ready: Service, standing: Sequence[str]) -> Evidence:
    """Return what the steps of all pools rest on."""
    if ready.kinds:
        return kinds_evidence(ready, standing)
    first, *others = (step_evidence(pool.question, pool.table, standing) for pool in ready.pools)
    return merged_evidence(first, others[0]) if others else first


def _client(ready: Service) -> str:
    profile = ready.entry.question.profile
    engines = {pool.question.profile.name for pool in ready.pools}
    whose = f"; those of {profile.id}, for all kinds" if len(engines) > 1 else ""
    return f"{ready.entry.front.said}{whose}"


def _resolved(ready: Service, scenario: Scenario) -> dict[str, Any]:
    """Return the limits an answer is for where all pools have them, and what each pool is."""
    limits = [
        {
            "max_num_seqs": int(pool.question.limits.max_num_seqs[0]),
            "max_num_batched_tokens": pool.limits.max_num_batched_tokens,
        }
        for pool in ready.pools
    ]
    told = of_all(limits) if ready.kinds or limits[0] == limits[-1] else {}
    if ready.kinds:
        told["replica_kinds"] = resolved_kinds(ready)
    for role, pool in ready.named.items():
        plan = pool.question.plan
        told |= {f"{role}_tp": int(plan.tp[0]), f"{role}_workers": int(plan.dp[0])}
    return told | ({"mode": scenario.mode} if ready.named else {})


def _capacities(results: Mapping[str, Any]) -> str:
    own = f"{results['kv_capacity_tokens']:,} tokens"
    prefill = results.get("prefill_kv_capacity_tokens")
    if prefill is None:
        return own
    return f"{prefill:,} tokens on a prefill worker, {own} on a decode worker"


def _too_long(question: Question, came: Arriving) -> list[str]:
    """Return that requests are longer than the model's context, one text at most."""
    longest = question.model.architecture.max_position_embeddings
    total_N = came.requests.isl_N + came.requests.osl_N
    above = int((total_N > longest).sum())
    if not longest or not above:
        return []
    said = (
        f"{above:,} requests of up to {total_N.max():,} tokens exceed the model's stated context of"
        f" {longest:,}: an engine started without a longer one rejects them; here they run"
    )
    return [said]


def _warnings(results: Mapping[str, Any]) -> list[str]:
    said = []
    if results["saturated"]:
        said.append(saturation_warning(results))
    if results["requests_rejected"]:
        said.append(
            f"{results['requests_rejected']:,} requests need more cache than there is"
            f" ({_capacities(results)}) and were rejected"
        )
    said += operated_warnings(results)
    if results["interrupted"]:
        said.append("interrupted: only what was simulated until then is counted")
    return said
