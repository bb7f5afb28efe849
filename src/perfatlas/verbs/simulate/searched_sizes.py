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
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.studies.traffic import (
    FIRST,
    LIVE,
    ONE_POOL,
    PLURALS,
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
    most_sessions,
    rate_at,
    served,
    size_at,
    sized_run,
    smallest_size,
)
from perfatlas.verbs.simulate.answer import Simulation, simulate, simulated, simulation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.scenario.deployments.traffic_facts import Searched
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.requests import Requests
    from perfatlas.studies.traffic import Size, TrafficRun

RATE_RUNS: Final = 40  # expected runs of a search for a rate with its interval, for the progress
SIZE_RUNS: Final = 20  # of a search for a size
SESSION_RUNS: Final = 30  # of a search for a number of sessions
UNIT: Final = 1.0  # requests/s at which traffic is generated

_SCALED: Final = ("request_rate", "rate_scale")
_SIZES: Final = (*ONE_POOL, *TWO_POOLS, "gpus")
_RESULTS: Final = {"dp": "required_replicas"} | {name: f"required_{name}" for name in TWO_POOLS}
# fields, or values of them, that a search refuses, and why
_REFUSED: Final[Mapping[Searched, Mapping[str, str]]] = {
    "rate": {
        **dict.fromkeys(_SCALED, "{name} = {value}: the rate is searched; remove it"),
        **dict.fromkeys(
            ("concurrency", "sessions", "arrival = closed"),
            "a rate search does not support closed loops; remove concurrency, sessions and arrival,"
            " or find the number of live sessions (--find-sessions)",
        ),
        "arrival = ramp": "a rate search does not support arrival = ramp; remove arrival,"
        " ramp_to_rate and ramp_s",
    },
    "sessions": dict.fromkeys(
        (*LIVE, "concurrency", *_SCALED),
        "{name} = {value}: the number of live sessions is searched; remove {name}",
    ),
    "replicas": {
        **dict.fromkeys(
            _SIZES, "{name} = {value}: the number of {plural} is searched; remove {name}"
        ),
        **dict.fromkeys(
            ("max_replicas", "replica_events", "replica_kinds"),
            "a search for the number of replicas does not support {name}: all replicas are equal"
            " and always in service; remove it",
        ),
        "feed_forward_system": "a search for the number of replicas does not support"
        " feed_forward_system = {value}: replicas of attention (dp) share one machine of"
        " feed-forward networks; remove it, or compare several dp",
        "num_seeds": "num_seeds = {value}: a search for the number of replicas extends runs of one"
        " seed until they are precise enough; remove num_seeds",
    },
}
_ALLOWED: Final = {"num_seeds": 1}  # values of refused fields that change nothing


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
    rate = search.met * search.unit
    try:
        ends = {
            end: rate_at(search, slower)
            for end, slower in deployments.price_ends(search.ready).items()
        }
    except KeyboardInterrupt:
        return _stopped(search, fields, _largest("max_requests_per_s", rate, {}), num_requests)
    rates = _largest("max_requests_per_s", rate, ends)
    done = simulate(progress=search.runs.look, **_inputs_at(fields, search))
    return _rate_answer(done, fields, rates, _drawn(search, num_requests))


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
    drawn = (*_SCALED, "num_requests")
    return _answer(replace(done, answer=answer), "rate", fields, rates, drawn)


def _answer(
    done: Simulation,
    searched: Searched,
    fields: dict[str, Any],
    found: dict[str, Any],
    left_out: tuple[str, ...],
) -> Simulation:
    """Return a simulation with the numbers that were found, without the fields of them."""
    kept = {k: v for k, v in done.answer.scenario.items() if k not in left_out}
    answer = replace(
        done.answer,
        command=f"simulate --find-{searched}",
        scenario=plain_values(verb_fields("simulate"), fields) | kept,
        results=deployments.containing_predictions(found) | dict(done.answer.results),
    )
    return replace(done, answer=answer)


def _inputs_at(fields: dict[str, Any], search: RateSearch) -> dict[str, Any]:
    """Return the fields of the simulation at the maximum rate."""
    if fields.get("requests"):
        return _without_percentile(fields) | {"rate_scale": search.met}
    return _without_percentile(fields) | {
        "request_rate": search.met * search.unit,
        "num_requests": search.traffic.num_requests,
    }


def _without_percentile(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a simulation, which has no percentile of SLOs."""
    return {name: value for name, value in fields.items() if name != "slo_percentile"}


def _largest(name: str, value: float, ends: Mapping[str, float]) -> dict[str, Any]:
    """Return the largest load, with those at the ends of the interval of step times.

    Args:
        ends: The loads by the end of step times: the slower the steps, the smaller the load.
    """
    return {name: value, f"{name}_low": ends.get("high"), f"{name}_high": ends.get("low")}


def _question(
    fields: Mapping[str, Any], searched: Searched, probe: Mapping[str, Any]
) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of a search, with first values of what it searches."""
    plural = "workers" if fields.get("mode") == "disaggregated" else "replicas"
    for refused, why in _REFUSED[searched].items():
        name, _, only = refused.partition(" = ")
        value = fields.get(name)
        if value not in (None, "", _ALLOWED.get(name)) and only in ("", value):
            raise InvalidSpecError(why.format(name=name, value=value, plural=plural))
    traffic, scenario = split_fields({**fields, **probe})
    if not traffic.objectives():
        slos = "at least one of slo_ttft_s, slo_tpot_s, slo_itl_s, slo_request_latency_s"
        end = "them"
        if is_graph(scenario.model):
            slos, end = "slo_request_latency_s", "it"
        raise InvalidSpecError(
            f"no SLO specified: set {slos}; slo_percentile applies {end} to a percentile"
        )
    deployments.refuse_unused_options(traffic, scenario, searched=searched)
    return traffic, scenario


def _rate_search(fields: dict[str, Any], watch: Callable[[float], bool] | None) -> RateSearch:
    """Return the search for named fields, with traffic at a factor of 1."""
    probe = {} if fields.get("requests") else {"request_rate": UNIT}
    traffic, scenario = _question(fields, "rate", probe)
    run = served(traffic, scenario, {})
    unit = _rate(run.resolved.requests) if traffic.requests is not None else UNIT
    return RateSearch(
        scenario=scenario,
        traffic=traffic,
        ready=run.ready,
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
    traffic, scenario = _question(fields, "sessions", {"sessions": 1})
    runs = WatchedRuns(watch=progress, expected=SESSION_RUNS)
    search = SizeSearch(names=LIVE, scenario=scenario, traffic=traffic, runs=runs)
    ready = search.served(search.smallest).ready
    every = int(deployments.resolve_traffic(traffic, scenario).requests.session_N.max()) + 1
    found = most_sessions(search, 1, every)
    if found == 0:
        raise InfeasibleError(
            f"one session misses the SLOs: {search.judged[search.smallest].reason}"
        )
    if found == every:
        raise InvalidSpecError(
            f"the SLOs are met even with all {every:,} sessions live, so they do not limit their"
            " number; use stricter SLOs or a file of more sessions"
        )
    done = simulate(progress=runs.look, **_without_percentile(fields), sessions=found)
    results = _largest(
        "max_sessions",
        found,
        {
            end: most_sessions(search.at_prices(slower), found + 1 if end == "low" else 1, every)
            for end, slower in deployments.price_ends(ready).items()
        },
    )
    results["max_sessions_per_gpu"] = found / ready.gpus
    return _answer(done, "sessions", fields, results, LIVE)


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
    traffic, scenario = _question(fields, "replicas", {})
    search = SizeSearch(
        names=TWO_POOLS if scenario.mode == "disaggregated" else ONE_POOL,
        scenario=scenario,
        traffic=traffic,
        runs=WatchedRuns(watch=progress, expected=SIZE_RUNS),
    )
    search.each = load_on_one(search)
    size = smallest_size(search)
    decided = search.judged[size]
    run = _final_run(search, size)
    ends = deployments.price_ends(run.ready)
    results = _numbers(search, size, {end: size_at(search, by) for end, by in ends.items()})
    numbers = dict(zip(search.names, size, strict=True))
    at = _without_percentile(fields) | numbers
    done = simulation_of(run, search.of(size), at, search.prices, search.runs.look)
    notes = [f"{search.text(size)}: {decided.reason}"] if decided.reason else []
    warnings = list(done.answer.warnings)
    if None in results.values():
        warnings.append(
            f"no number of {PLURALS[search.names]} meets the SLOs at the slow end of the step-time"
            " interval"
        )
    evidence = done.answer.evidence
    assumptions = (*notes, *_fewer(search, size), *evidence.assumptions)
    answer = replace(
        done.answer, evidence=replace(evidence, assumptions=assumptions), warnings=tuple(warnings)
    )
    return _answer(replace(done, answer=answer), "replicas", fields, results, _SIZES)


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
