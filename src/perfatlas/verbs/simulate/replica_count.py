"""The smallest deployment that meets its SLOs: replicas, or prefill and decode workers.

More workers of either pool are taken not to make latencies worse.

All steps are slower or faster than predicted together. The probability that a size meets the SLOs
is that of step times no longer than the longest with which it does.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments import (
    price_ends,
    prices_at,
    refuse_unused_options,
    resolve_traffic,
    service,
)
from perfatlas.scenario.fields import plain_values
from perfatlas.serving.config import MAX_SCHEDULERS
from perfatlas.studies import bisected, cheapest_pair, smallest_number
from perfatlas.verbs.simulate.answer import Simulation, simulation_of
from perfatlas.verbs.simulate.judged_sizes import (
    ONE_POOL,
    TWO_POOLS,
    SizeSearch,
    beyond_capacity,
    confirmed,
    judge,
    load_on,
    load_on_one,
    refuse_unmeetable,
)
from perfatlas.verbs.simulate.question import split_fields
from perfatlas.verbs.simulate.request_rate import NO_SLO
from perfatlas.verbs.simulate.results import containing_predictions
from perfatlas.verbs.simulate.run_length import FIRST, WatchedRuns, sized_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.scenario.deployments import StepScale
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.verbs.simulate.judged_sizes import Size
    from perfatlas.verbs.simulate.run_length import Run

PROBABLE: Final = 0.8  # the default of a search for deployments
HIGHEST: Final = 0.999
EXPECTED: Final = 20  # expected runs of a search with its interval, for the progress
PRECISION: Final = 0.02  # of a probability


def slo_probability(
    search: SizeSearch, size: Size, ends: Mapping[str, tuple[StepScale, ...]]
) -> float:
    """Return the probability that a size meets the SLOs.

    Args:
        search: The search that found it: it meets them at the predicted step times.
        size: The size.
        ends: Scales of step times at the ends of their 90% interval, of which it has the upper one.

    Raises:
        KeyboardInterrupt: The search was stopped.

    Limits: At least 0.5 and at most `HIGHEST`; from below, to 0.02.
    """

    def meets(probability: float) -> bool:
        return judge(search.at_prices(prices_at(ends, probability)), size).verdict == "met"

    low, high = (PROBABLE, HIGHEST) if meets(PROBABLE) else (0.5, PROBABLE)
    return bisected(
        meets,
        low,
        high,
        lambda met, missed: (met + missed) / 2.0,
        lambda met, missed: missed - met <= PRECISION,
    )[0]


LARGEST: Final = 64  # largest number that is tried / number that the capacity asks for


def smallest_size(search: SizeSearch) -> Size:
    """Return the smallest number of replicas, or of workers with the fewest GPUs, within the SLOs.

    Args:
        search: The search, updated in place.

    Raises:
        InfeasibleError: No number meets them.
        InvalidSpecError: More are needed than a simulation supports.
        KeyboardInterrupt: The search was stopped.
    """
    first, most = _limits(search)
    refuse_unmeetable(search)
    while True:
        found = _smallest_met(search, first, most)
        if found is None:
            raise InfeasibleError(
                f"no number of {search.plural} meets the SLOs, up to {search.text(most)}:"
                f" {search.judged[most].reason}"
            )
        if search.slower or confirmed(search, found):
            return found


def _smallest_met(search: SizeSearch, first: Size, most: Size) -> Size | None:
    """Return the smallest size that meets the SLOs, None if none does."""

    def meets(size: Size) -> bool:
        return judge(search, size).verdict == "met"

    if search.names == TWO_POOLS:
        return cheapest_pair(meets, _pair(first), _pair(most), _gpus_of_workers(search))
    number = smallest_number(lambda number: meets((number,)), first[0], most[0])
    return None if number is None else (number,)


def _pair(size: Size) -> tuple[int, int]:
    first, second = size
    return first, second


def _gpus_of_workers(search: SizeSearch) -> tuple[int, int]:
    """Return the GPUs of one prefill and of one decode worker."""
    resolved = resolve_traffic(search.traffic, search.of(search.one))
    pools = service(search.of(search.one), search.traffic, resolved, search.known).pools
    return _pair(tuple(int(pool.question.plan.ranks[0]) for pool in pools))


def _limits(search: SizeSearch) -> tuple[Size, Size]:
    """Return the numbers that the capacities ask for, and the largest that are tried."""
    pools = len(search.one)
    most = MAX_SCHEDULERS // pools // search.scenario.attention_dp
    if not search.each:
        requests = resolve_traffic(search.traffic, search.of(search.one)).requests
        return search.one, (min(most, int(requests.isl_N.size)),) * pools
    first = tuple(math.floor(load.share) + 1 for load in search.each)
    if max(first) > most:
        raise InvalidSpecError(
            f"request_rate = {search.each[0].requests_per_s:g}: {search.text(first)} are needed,"
            f" and a simulation supports at most {search.text((most,) * pools)}; scale the traffic"
            " down"
        )
    return first, tuple(min(LARGEST * number, most) for number in first)


_SEARCHED: Final = (*ONE_POOL, *TWO_POOLS, "gpus")
_RESULTS: Final = {"dp": "required_replicas"} | {name: f"required_{name}" for name in TWO_POOLS}
_VARYING: Final = ("max_replicas", "replica_events", "replica_kinds")


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
        faster or slower by the errors of measured serving runs, and `_p80` for those that meet the
        SLOs with a probability of 80%; None where no number meets them. `slo_probability` is the
        probability that the number found meets them.

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
    traffic, scenario = _question(fields)
    search = SizeSearch(
        scenario=scenario,
        traffic=traffic,
        known={},
        runs=WatchedRuns(watch=progress, expected=EXPECTED),
    )
    search.each = load_on_one(search)
    size = smallest_size(search)
    decided = search.judged[size]
    run = _final_run(search, size)
    ends = price_ends(run.ready)
    results = _numbers(search, size, {end: _at_end(search, by) for end, by in ends.items()})
    results |= _by_probability(search, size, ends)
    numbers = dict(zip(search.names, size, strict=True))
    at = {name: value for name, value in fields.items() if name != "slo_percentile"}
    done = simulation_of(run, search.of(size), {**at, **numbers}, search.known, search.runs.look)
    notes = [f"{search.text(size)}: {decided.reason}"] if decided.reason else []
    return _enveloped(done, fields, results, (*notes, *_fewer(search, size)))


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


def _by_probability(
    search: SizeSearch, size: Size, ends: Mapping[str, tuple[StepScale, ...]]
) -> dict[str, float | None]:
    """Return the probability that a size meets the SLOs, and the numbers for one of 80%.

    Nothing where step times have no upper end.
    """
    if "high" not in ends:
        return {}
    likely = _at_end(search, prices_at(ends, PROBABLE))
    numbers = {
        f"{_RESULTS[name]}_p80": None if likely is None else likely[pool]
        for pool, name in enumerate(search.names)
    }
    return {"slo_probability": slo_probability(search, size, ends), **numbers}


def _question(fields: dict[str, Any]) -> tuple[Traffic, Scenario]:
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
    if fields.get("num_seeds") not in (None, "", 1):
        raise InvalidSpecError(
            f"num_seeds = {fields['num_seeds']}: a search for the number of replicas extends runs"
            " of one seed until they are precise enough; remove num_seeds"
        )
    traffic, scenario = split_fields(fields)
    if not traffic.objectives():
        raise InvalidSpecError(NO_SLO)
    refuse_unused_options(traffic, scenario, searched="replicas")
    return traffic, scenario


def _final_run(search: SizeSearch, size: Size) -> Run:
    """Return the run that is answered: at least as long as the one that decided."""
    decided = search.judged[size].run
    first = (decided.traffic.num_requests if decided else None) or FIRST
    run = sized_run(
        search.traffic,
        search.of(size),
        search.known,
        search.runs.look,
        max(first, FIRST),
        load_on(search.each, size) if search.each else None,
    )
    search.runs.done += 1
    return run


def _at_end(search: SizeSearch, slower: tuple[StepScale, ...]) -> Size | None:
    """Return the smallest size with scaled step times, None if none meets the SLOs."""
    try:
        return smallest_size(search.at_prices(slower))
    except InfeasibleError:
        return None


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


def _enveloped(
    done: Simulation, fields: dict[str, Any], results: dict[str, Any], notes: tuple[str, ...]
) -> Simulation:
    kept = {k: v for k, v in done.answer.scenario.items() if k not in _SEARCHED}
    warnings = list(done.answer.warnings)
    if None in results.values():
        searched = "replicas" if "required_replicas" in results else "workers"
        warnings.append(
            f"no number of {searched} meets the SLOs at the slow end of the step-time interval"
        )
    evidence = done.answer.evidence
    answer = replace(
        done.answer,
        command="simulate --find-replicas",
        scenario=plain_values(verb_fields("simulate"), fields) | kept,
        results=containing_predictions(results) | dict(done.answer.results),
        evidence=replace(evidence, assumptions=(*notes, *evidence.assumptions)),
        warnings=tuple(warnings),
    )
    return replace(done, answer=answer)
