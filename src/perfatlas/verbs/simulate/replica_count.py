"""The smallest number of replicas with which a deployment meets its SLOs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError, UnsupportedError, counted
from perfatlas.scenario.deployments import price_ends, refuse_unused_options
from perfatlas.scenario.fields import plain_values
from perfatlas.verbs.simulate.answer import Simulation, simulation_of
from perfatlas.verbs.simulate.question import split_fields
from perfatlas.verbs.simulate.replica_search import (
    ReplicaSearch,
    beyond_capacity,
    load_on,
    load_on_one,
    smallest,
)
from perfatlas.verbs.simulate.request_rate import NO_SLO
from perfatlas.verbs.simulate.results import containing_predictions
from perfatlas.verbs.simulate.run_length import FIRST, sized_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.deployments import StepScale
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.verbs.simulate.run_length import Run

_SEARCHED: Final = ("dp", "gpus")
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

    Args:
        progress: Called regularly; returns True to stop the search.
        **fields: As for `simulate`, with at least one slo_*; slo_percentile selects a percentile.
            dp and gpus are not used.

    Returns:
        The simulation with that number. Its results also contain `required_replicas`, with `_low`
        and `_high` for steps faster or slower by the errors of measured serving runs; None where no
        number meets the SLOs.

    Raises:
        InfeasibleError: No number of replicas meets the SLOs, or the model does not fit.
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
    search = ReplicaSearch(scenario=scenario, traffic=traffic, known={}, watch=progress)
    search.each = load_on_one(search)
    number = smallest(search)
    decided = search.judged[number]
    results: dict[str, Any] = {"required_replicas": number}
    run = _final_run(search, number)
    ends = price_ends(run.ready)
    if ends:
        results |= {f"required_replicas_{end}": _at_end(search, by) for end, by in ends.items()}
    at = {name: value for name, value in fields.items() if name != "slo_percentile"}
    done = simulation_of(run, search.of(number), {**at, "dp": number}, search.known, search.look)
    notes = [f"{counted(number, 'replica')}: {decided.reason}"] if decided.reason else []
    return _enveloped(done, fields, results, (*notes, *_fewer(search, number)))


def _question(fields: dict[str, Any]) -> tuple[Traffic, Scenario]:
    """Return the traffic and the deployment of named fields."""
    for name in _SEARCHED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(
                f"{name} = {fields[name]}: the number of replicas is searched; remove {name}"
            )
    for name in _VARYING:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(
                f"a search for the number of replicas does not support {name}: all replicas are"
                " equal and always in service; remove it"
            )
    if fields.get("mode") == "disaggregated":
        raise UnsupportedError(
            "a search for the number of replicas does not support mode = disaggregated, which has"
            " two numbers of workers; use mode = aggregated, or compare prefill_workers and"
            " decode_workers with --table"
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


def _final_run(search: ReplicaSearch, number: int) -> Run:
    """Return the run that is answered: at least as long as the one that decided."""
    decided = search.judged[number].run
    first = (decided.traffic.num_requests if decided else None) or FIRST
    run = sized_run(
        search.traffic,
        search.of(number),
        search.known,
        search.look,
        max(first, FIRST),
        None if search.each is None else load_on(search.each, number),
    )
    search.tried += 1
    return run


def _at_end(search: ReplicaSearch, slower: tuple[StepScale, ...]) -> int | None:
    """Return the number of replicas with scaled step times, None if none meets the SLOs."""
    moved = search
    try:
        moved = search.at_prices(slower)
        return smallest(moved)
    except InfeasibleError:
        return None
    finally:
        search.tried = moved.tried


def _fewer(search: ReplicaSearch, number: int) -> list[str]:
    """Return why one replica less does not suffice, one text at most."""
    if number == 1:
        return []
    fewer = search.judged.get(number - 1)
    reason = fewer.reason if fewer else ""
    if fewer is None and search.each is not None:
        reason = beyond_capacity(load_on(search.each, number - 1))
    undecided = fewer is not None and fewer.verdict == "undecided"
    certain = "; the longest run is too short to tell with 95% confidence" if undecided else ""
    return [f"{counted(number - 1, 'replica')}: {reason}{certain}"]


def _enveloped(
    done: Simulation, fields: dict[str, Any], results: dict[str, Any], notes: tuple[str, ...]
) -> Simulation:
    kept = {k: v for k, v in done.answer.scenario.items() if k not in _SEARCHED}
    warnings = list(done.answer.warnings)
    if results.get("required_replicas_high", 0) is None:
        warnings.append(
            "no number of replicas meets the SLOs at the slow end of the step-time interval"
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
