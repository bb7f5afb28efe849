"""Scenarios that state SLOs, each at the best plan that `search` finds under them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import METERED
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies.deployments import LATENCIES, BestPlan
from perfatlas.vocabulary.fields import fields_of, is_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# reported beside a plan, which they do not change
BESIDE: Final = ("pue", *METERED.values())
PROBABILITY: Final = "min_slo_probability"  # with which a plan meets the SLOs


def has_slos(scenario: Mapping[str, Any]) -> bool:
    """Return whether a scenario is to be answered at its best plan."""
    return any(is_set(scenario.get(name)) for name in LATENCIES)


def check_slos(scenarios: Sequence[Mapping[str, Any]]) -> None:
    """Refuse SLOs of a part of the scenarios, without GPUs, or beside what a search chooses.

    Raises:
        InvalidSpecError: The scenarios cannot be compared at their best plans.
    """
    from perfatlas.studies.deployments import SearchInputs

    without = [str(row["label"]) for row in scenarios if not has_slos(row)]
    if without and len(without) < len(scenarios):
        raise InvalidSpecError(
            f"{', '.join(without)} without an SLO cannot be compared with best plans under one:"
            " give all scenarios an SLO, or none"
        )
    for row in scenarios:
        if without:
            if is_set(row.get("objective")):
                raise InvalidSpecError(
                    "objective has no effect without an SLO: it ranks the plans of each scenario;"
                    f" set {', '.join(LATENCIES)}"
                )
            continue
        if not is_set(row.get("gpus")):
            slo = next(name for name in LATENCIES if is_set(row.get(name)))
            raise InvalidSpecError(
                f"{slo} needs gpus, the GPUs among whose plans the best is searched: set gpus,"
                " such as 8"
            )
        known = (*SearchInputs.fields(), *BESIDE, "label")
        if left := [name for name, value in row.items() if name not in known and is_set(value)]:
            raise InvalidSpecError(
                f"{', '.join(left)} cannot be combined with an SLO, under which each scenario is at"
                " its best plan and load; leave the SLO or this out"
            )


def best_plan(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with which `estimate` prices a scenario at its best plan.

    Raises:
        PerfatlasError: No plan meets the SLOs, or the search cannot be asked.
    """
    from perfatlas.studies.deployments import best_plan_fields, read_search

    beside = {name: scenario[name] for name in BESIDE if name in scenario}
    asked = {name: value for name, value in scenario.items() if name not in BESIDE}
    return {**best_plan_fields(read_search(asked)), **beside}


def slos_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed objective and SLOs of a scenario, those that are set, and how probable."""
    if not has_slos(scenario):
        return {}
    from perfatlas.studies.deployments import SearchInputs

    probability = SearchInputs.fields()[PROBABILITY]
    return {
        name: field.read(scenario[name])
        for name, field in fields_of(BestPlan).items()
        if is_set(scenario.get(name))
    } | {PROBABILITY: probability.read(scenario.get(PROBABILITY, probability.default))}
