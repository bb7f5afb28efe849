"""Searches of simulations: the largest load, or the smallest deployment, within the SLOs.

The numbers have intervals: all steps are slower or faster than predicted together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import signature_of, verb_fields
from perfatlas.networks import is_graph
from perfatlas.quantities import InfeasibleError, InvalidSpecError, significant
from perfatlas.scenario import deployments
from perfatlas.scenario.fields import plain_values
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.studies.bisection import smallest_number
from perfatlas.studies.traffic import (
    FIRST,
    ONE_POOL,
    TWO_POOLS,
    RateSearch,
    SizeSearch,
    WatchedRuns,
    beyond_capacity,
    capacity_of,
    find_rate,
    full_rate,
    judge,
    load_on,
    load_on_one,
    missed_slos,
    rate_at,
    size_at,
    sized_run,
    slo_statistics,
    smallest_size,
)
from perfatlas.verbs.simulate.answer import Simulation, simulate, simulated, simulation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.requests import Requests
    from perfatlas.studies.traffic import Size, TrafficRun

RATE_RUNS: Final = 40  # expected runs of a search for a rate with its interval, for the progress
SIZE_RUNS: Final = 20  # of a search for a size
SESSION_RUNS: Final = 30  # of a search for a number of sessions
UNIT: Final = 1.0  # requests/s at which traffic is generated
_SCALED: Final = ("request_rate", "rate_scale")
_DRAWN: Final = (*_SCALED, "num_requests")  # determined by the search


_SEARCHED: Final = (*ONE_POOL, *TWO_POOLS, "gpus")
_RESULTS: Final = {"dp": "required_replicas"} | {name: f"required_{name}" for name in TWO_POOLS}
_VARYING: Final = ("max_replicas", "replica_events", "replica_kinds")


@signature_of("simulate")
def max_request_rate(
    *,
    progress: Callable[[float], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return the maximum request rate that meets the SLOs, and the simulation at that rate.

    A rate meets them if the selected percentile (or the mean) of each metric is within its SLO, no
    request is rejected, the queue does not grow until the end, and over the second half of the
    arrivals as many requests end as start, within 5%. Rates are bisected to 1%. If generated
    traffic is shorter than four times the unqueued duration of a request (or session), or too short
    for a significant test of a growing backlog, more requests are drawn.

    Args:
        progress: Called regularly; returns True to stop the search.
        **fields: As for `simulate`, with at least one slo_*; slo_percentile selects a percentile.
            request_rate is not used: the rates of generated traffic, or the times of a file, are
            scaled.

    Returns:
        The simulation at that rate. Its results also contain `max_requests_per_s`, with `_low` and
        `_high` for steps slower or faster by the errors of measured serving runs. If it was stopped
        before the rate was found, `interrupted` is true, `max_requests_per_s` is None, and
        `met_requests_per_s` and `missed_requests_per_s` bracket the rate.

    Raises:
        InfeasibleError: No rate meets the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid; no SLO is given; the traffic is too short, or
            all rates meet the SLOs.
        KeyboardInterrupt: It was stopped before any rate was known to meet them.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_requests_per_s"] < 100
        True
    """
    search = _rate_search(fields, progress)
    num_requests = deployments.resolve_traffic(search.traffic, search.scenario).requests.isl_N.size
    try:
        find_rate(search, full_rate(search) / search.unit)
    except KeyboardInterrupt:
        if search.run is None:
            raise
        return _stopped(search, fields, _bracket(search), num_requests)
    rates: dict[str, Any] = {"max_requests_per_s": search.met * search.unit}
    rates |= {"max_requests_per_s_low": None, "max_requests_per_s_high": None}
    other = {"low": "high", "high": "low"}
    try:
        ends = {
            f"max_requests_per_s_{other[end]}": rate_at(search, slower)
            for end, slower in deployments.price_ends(search.ready).items()
        }
    except KeyboardInterrupt:
        return _stopped(search, fields, rates, num_requests)
    done = simulate(progress=search.runs.look, **_inputs_at(fields, search))
    return _rate_answer(done, fields, rates | ends, _drawn(search, num_requests))


def _bracket(search: RateSearch) -> dict[str, Any]:
    """Return the rates that bracket the maximum rate."""
    missed = search.missed * search.unit
    return {
        "max_requests_per_s": None,
        "met_requests_per_s": search.met * search.unit,
        "missed_requests_per_s": None if math.isinf(missed) else missed,
    }


def _stopped(
    search: RateSearch, fields: dict[str, Any], rates: dict[str, Any], num_requests: int
) -> Simulation:
    """Return the result of a stopped search: the run at the largest rate that meets the SLOs."""
    run = search.run
    if run is None:
        raise KeyboardInterrupt
    stopped = run.outcome._replace(interrupted=True)
    at = _inputs_at(fields, search)
    done = simulated(search.ready, run.resolved, stopped, at)
    note = "interrupted before the interval of the rate was known"
    if rates["max_requests_per_s"] is None:
        missed = rates["missed_requests_per_s"]
        note = (
            f"interrupted: {significant(rates['met_requests_per_s'], 4)} requests/s meets the SLOs,"
            " "
            + (
                "and no rate that misses them was found yet"
                if missed is None
                else f"{significant(missed, 4)} misses them; the maximum rate lies in between"
            )
        )
    return _rate_answer(done, fields, rates, [note, *_drawn(search, num_requests)])


def _drawn(search: RateSearch, num_requests: int) -> list[str]:
    """Return a warning if more requests were drawn than configured."""
    drawn = search.traffic.num_requests
    if drawn is None or drawn == num_requests:
        return []
    return [
        f"{num_requests:,} requests are too few to determine the maximum rate; {drawn:,} were drawn"
    ]


def _rate_answer(
    done: Simulation, fields: dict[str, Any], rates: dict[str, Any], warnings: list[str]
) -> Simulation:
    answer = replace(done.answer, warnings=(*warnings, *done.answer.warnings))
    return _answer(replace(done, answer=answer), "simulate --find-rate", fields, rates, _DRAWN)


def _answer(
    done: Simulation,
    command: str,
    fields: dict[str, Any],
    found: dict[str, Any],
    searched: tuple[str, ...],
) -> Simulation:
    """Return a simulation with the numbers that were found, without the searched fields."""
    kept = {k: v for k, v in done.answer.scenario.items() if k not in searched}
    answer = replace(
        done.answer,
        command=command,
        scenario=plain_values(verb_fields("simulate"), fields) | kept,
        results=deployments.containing_predictions(found) | dict(done.answer.results),
    )
    return replace(done, answer=answer)


def _inputs_at(fields: dict[str, Any], search: RateSearch) -> dict[str, Any]:
    """Return the fields of the simulation at the maximum rate."""
    fields = {name: value for name, value in fields.items() if name != "slo_percentile"}
    if fields.get("requests"):
        return fields | {"rate_scale": search.met}
    return fields | {
        "request_rate": search.met * search.unit,
        "num_requests": search.traffic.num_requests,
    }


def _no_slo(scenario: Scenario) -> InvalidSpecError:
    """Return that a search has no SLO, with those that it may have."""
    slos = "at least one of slo_ttft_s, slo_tpot_s, slo_itl_s, slo_request_latency_s"
    end = "them"
    if is_graph(scenario.model):
        slos, end = "slo_request_latency_s", "it"
    return InvalidSpecError(
        f"no SLO specified: set {slos}; slo_percentile applies {end} to a percentile"
    )


def _rate_search(fields: dict[str, Any], watch: Callable[[float], bool] | None) -> RateSearch:
    """Return the search for named fields, with traffic at a factor of 1."""
    for name in _SCALED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(f"{name} = {fields[name]}: the rate is searched; remove it")
    loops = any(fields.get(name) not in (None, "") for name in ("concurrency", "sessions"))
    if loops or fields.get("arrival") == "closed":
        raise InvalidSpecError(
            "a rate search does not support closed loops; remove concurrency, sessions and arrival,"
            " or find the number of live sessions (--find-sessions)"
        )
    if fields.get("arrival") == "ramp":
        raise InvalidSpecError(
            "a rate search does not support arrival = ramp; remove arrival, ramp_to_rate and ramp_s"
        )
    probe = fields if fields.get("requests") else fields | {"request_rate": UNIT}
    traffic, scenario = split_fields(probe)
    if not traffic.objectives():
        raise _no_slo(scenario)
    deployments.refuse_unused_options(traffic, scenario, searched="rate")
    resolved = deployments.resolve_traffic(traffic, scenario)
    ready = deployments.service(scenario, traffic, resolved)
    unit = _rate(resolved.requests) if traffic.requests is not None else UNIT
    return RateSearch(
        scenario=scenario,
        traffic=traffic,
        ready=ready,
        unit=unit,
        runs=WatchedRuns(watch=watch, expected=RATE_RUNS),
        capacity=capacity_of(traffic, scenario),
    )


def _rate(requests: Requests) -> float:
    """Return the mean rate of arrivals [requests/s]."""
    span = int(requests.arrival_N[-1] - requests.arrival_N[0])
    if span <= 0:
        raise InvalidSpecError("all requests arrive at the same time; a rate needs distinct times")
    return (requests.arrival_N.size - 1) * TICKS_PER_SECOND / span


@signature_of("simulate")
def max_sessions(
    *,
    progress: Callable[[float], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return the largest number of live sessions that meets the SLOs, and the simulation with it.

    A number meets them if the selected percentile (or the mean) of each metric over all requests is
    within its SLO and no request is rejected. More sessions are taken to make no latency better.

    Args:
        progress: Called regularly; returns True to stop the search.
        **fields: As for `simulate`, with requests of sessions and at least one slo_*;
            slo_percentile selects a percentile. sessions is not used.

    Returns:
        The simulation with that number. Its results also contain `max_sessions` and
        `max_sessions_per_gpu`, the former with `_low` and `_high` for steps slower or faster by the
        errors of measured serving runs; 0 where one session misses the SLOs.

    Raises:
        InfeasibleError: One session misses the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid, no SLO is given, there are no sessions, or all
            of them at once meet the SLOs.
        KeyboardInterrupt: It was stopped before the number was known.
        UnsupportedError: There is no model, data or scheduler for the combination.
    """
    for name in ("sessions", "concurrency", *_SCALED):
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(
                f"{name} = {fields[name]}: the number of live sessions is searched; remove {name}"
            )
    traffic, scenario = split_fields(fields | {"sessions": 1})
    if not traffic.objectives():
        raise _no_slo(scenario)
    deployments.refuse_unused_options(traffic, scenario, searched="sessions")
    runs = WatchedRuns(watch=progress, expected=SESSION_RUNS)
    known: deployments.Priced = {}
    every = int(deployments.resolve_traffic(traffic, scenario).requests.session_N.max()) + 1
    reasons: dict[int, str] = {}

    def missed(number: int, slower: Sequence[deployments.StepScale] = ()) -> str:
        at = traffic.changed(sessions=number)
        resolved = deployments.resolve_traffic(at, scenario)
        ready = deployments.service(scenario, at, resolved, known)
        ready = deployments.slowed(ready, slower) if slower else ready
        outcome = runs.run(ready, resolved)
        if outcome.rejected().any():
            return "requests that need more KV cache than available are rejected"
        latencies = request_latencies(resolved.requests, outcome, ready.seen)
        reasons[number] = missed_slos(traffic, slo_statistics(latencies, traffic))
        return reasons[number]

    def largest(first: int, slower: Sequence[deployments.StepScale] = ()) -> int:
        fewest = smallest_number(lambda number: bool(missed(number, slower)), first, every)
        return every if fewest is None else fewest - 1

    found = largest(1)
    if found == 0:
        raise InfeasibleError(f"one session misses the SLOs: {reasons[1]}")
    if found == every:
        raise InvalidSpecError(
            f"the SLOs are met even with all {every:,} sessions live, so they do not limit their"
            " number; use stricter SLOs or a file of more sessions"
        )
    at = {name: value for name, value in fields.items() if name != "slo_percentile"}
    done = simulate(progress=runs.look, **at, sessions=found)
    resolved = deployments.resolve_traffic(traffic, scenario)
    ready = deployments.service(scenario, traffic, resolved, known)
    other = {"low": "high", "high": "low"}
    ends = {
        f"max_sessions_{other[end]}": largest(found + 1 if end == "low" else 1, slower)
        for end, slower in deployments.price_ends(ready).items()
    }
    results: dict[str, Any] = {"max_sessions": found}
    results |= {"max_sessions_low": None, "max_sessions_high": None} | ends
    results["max_sessions_per_gpu"] = found / ready.gpus
    return _answer(done, "simulate --find-sessions", fields, results, ("sessions",))


@signature_of("simulate")
def required_replicas(
    *,
    progress: Callable[[float], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return the smallest number of replicas that meets the SLOs, and the simulation with it.

    A number of replicas meets them if the mean (or the selected percentile) of each metric is
    within its SLO with 95% confidence in the steady state of the traffic, and no request is
    rejected. Runs are extended until this is known, up to 600,000 requests. The search starts at
    the number whose capacity exceeds the request rate. Requests of a file, a closed loop, or a
    fixed `num_requests` are judged by that sample.

    In mode disaggregated, the numbers of prefill and decode workers that need the fewest GPUs are
    searched, on the assumption that more workers of either pool do not make latencies worse.

    Args:
        progress: Called regularly; returns True to stop the search.
        **fields: As for `simulate`, with at least one slo_*; slo_percentile selects a percentile.
            dp, gpus, prefill_workers and decode_workers are not used.

    Returns:
        The simulation with that number. Its results also contain `required_replicas`, or
        `required_prefill_workers` and `required_decode_workers`, with `_low` and `_high` for steps
        faster or slower by the errors of measured serving runs; None where no number meets them.

    Raises:
        InfeasibleError: No number meets the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid, or no SLO is given.
        KeyboardInterrupt: It was stopped before the number was known.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import required_replicas
        >>> found = required_replicas(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     isl=256, osl=8, request_rate=900, slo_ttft_s=0.1)
        >>> 2 <= found.answer.results["required_replicas"] <= 20
        True
    """
    traffic, scenario = _size_question(fields)
    search = SizeSearch(
        scenario=scenario,
        traffic=traffic,
        prices={},
        runs=WatchedRuns(watch=progress, expected=SIZE_RUNS),
    )
    search.each = load_on_one(search)
    size = smallest_size(search)
    decided = search.judged[size]
    run = _final_run(search, size)
    ends = deployments.price_ends(run.ready)
    results = _numbers(search, size, {end: size_at(search, by) for end, by in ends.items()})
    numbers = dict(zip(search.names, size, strict=True))
    at = {name: value for name, value in fields.items() if name != "slo_percentile"}
    done = simulation_of(run, search.of(size), {**at, **numbers}, search.prices, search.runs.look)
    notes = [f"{search.text(size)}: {decided.reason}"] if decided.reason else []
    return _size_answer(done, fields, results, (*notes, *_fewer(search, size)))


def _numbers(
    search: SizeSearch, size: Size, ends: Mapping[str, Size | None]
) -> dict[str, float | None]:
    """Return the numbers found, with those at the ends of the interval of step times."""
    results: dict[str, float | None] = {}
    for pool, name in enumerate(search.names):
        results[_RESULTS[name]] = size[pool]
        for end, moved in ends.items():
            results[f"{_RESULTS[name]}_{end}"] = None if moved is None else moved[pool]
    return results


def _size_question(fields: dict[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields."""
    searched = "workers" if fields.get("mode") == "disaggregated" else "replicas"
    for name in _SEARCHED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(
                f"{name} = {fields[name]}: the number of {searched} is searched; remove {name}"
            )
    for name in _VARYING:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(
                f"a search for the number of replicas does not support {name}: all replicas are"
                " equal and always in service; remove it"
            )
    if fields.get("feed_forward_system"):
        raise InvalidSpecError(
            f"a search for the number of replicas does not support feed_forward_system ="
            f" {fields['feed_forward_system']}: replicas of attention (dp) share one machine of"
            " feed-forward networks; remove it, or compare several dp"
        )
    if fields.get("num_seeds") not in (None, "", 1):
        raise InvalidSpecError(
            f"num_seeds = {fields['num_seeds']}: a search for the number of replicas extends runs"
            " of one seed until they are precise enough; remove num_seeds"
        )
    traffic, scenario = split_fields(fields)
    if not traffic.objectives():
        raise _no_slo(scenario)
    deployments.refuse_unused_options(traffic, scenario, searched="replicas")
    return traffic, scenario


def _final_run(search: SizeSearch, size: Size) -> TrafficRun:
    """Return the run that is answered: at least as long as the one that decided."""
    decided = search.judged[size].run
    first = (decided.traffic.num_requests if decided else None) or FIRST
    run = sized_run(
        search.traffic,
        search.of(size),
        search.prices,
        search.runs.look,
        max(first, FIRST),
        load_on(search.each, size) if search.each else None,
    )
    search.runs.done += 1
    return run


def _fewer(search: SizeSearch, size: Size) -> list[str]:
    """Return why one replica less, or one worker less of either pool, does not suffice."""
    notes = []
    for pool, number in enumerate(size):
        if number == 1:
            continue
        fewer = (*size[:pool], number - 1, *size[pool + 1 :])
        judged = judge(search, fewer) if len(size) > 1 else search.judged.get(fewer)
        reason = judged.reason if judged else beyond_capacity(load_on(search.each, fewer))
        undecided = judged is not None and judged.verdict == "undecided"
        certain = "; the longest run is too short to tell with 95% confidence" if undecided else ""
        notes.append(f"{search.text(fewer)}: {reason}{certain}")
    return notes


def _size_answer(
    done: Simulation, fields: dict[str, Any], results: dict[str, Any], notes: tuple[str, ...]
) -> Simulation:
    warnings = list(done.answer.warnings)
    if None in results.values():
        searched = "replicas" if "required_replicas" in results else "workers"
        warnings.append(
            f"no number of {searched} meets the SLOs at the slow end of the step-time interval"
        )
    evidence = done.answer.evidence
    evidence = replace(evidence, assumptions=(*notes, *evidence.assumptions))
    answer = replace(done.answer, evidence=evidence, warnings=tuple(warnings))
    done = replace(done, answer=answer)
    return _answer(done, "simulate --find-replicas", fields, results, _SEARCHED)
