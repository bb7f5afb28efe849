"""Changes that make a scenario fit, each of which has been resolved, fitted and priced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.inference import evaluate
from perfatlas.parallelism import NO_SINGLE_CHANGE, plan_problems
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.resolution import resolve_scenarios, resolved_plan
from perfatlas.step import Candidates, candidate_memory, does_not_fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.scenario.fields import Scenario


PLAN: Final = ("tp", "dp", "ep", "moe_tp")
GROWN: Final = ("tp", "pp", "attention_dp")
MAX_DOMAINS: Final = 256
FIRST_NUMBERS: Final = 8  # numbers of GPUs resolved at once at first


def fitting_changes(scenario: Scenario, question: Candidates) -> tuple[str, tuple[str, ...]]:
    """Return the memory shortfall of a scenario, and the changes with which it is answered."""
    smallest = _smallest_plan(scenario)
    pooled, tables = question.pooled, question.model.network.tables
    of_gpus = scenario.gpus is not None and scenario.tp is None
    sentence, advice = does_not_fit(
        question,
        lambda change: (
            not (smallest and "pp" in change)
            # the plan follows from the number of GPUs, see `_smallest_plan`, but tables are whole
            and not (of_gpus and not tables and change.keys() & set(GROWN))
            and _is_answered(scenario, change, pooled=pooled)
        ),
        states_gpus=scenario.gpus is not None,
    )
    if smallest and advice == (NO_SINGLE_CHANGE,):
        advice = ()
    return sentence, (*smallest, *advice)


def _is_answered(
    scenario: Scenario, change: Mapping[str, float | str], *, pooled: bool = False
) -> bool:
    """Return whether a scenario with some fields changed is legal, fits and has prices.

    Args:
        change: Values by field; a plan has its GPUs in total, which change with it if the scenario
            states them. A plan that leaves a scale-up domain is not taken where the current one
            does not.
        pooled: Whether it is a worker of a prefill or decode pool.
    """
    fields: dict[str, Any] = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in change.items()
    }
    if scenario.gpus is None:
        fields.pop("gpus", None)
    if "format" in fields:
        fields |= {"gemm_format": None, "moe_format": None}
    try:
        question, problems = resolve_scenarios([scenario.changed(**fields)], pooled=pooled)
        if question is None or any(problems):
            return False
        (problem,) = plan_problems(question.model.network, question.plan)
        if problem is not None or not candidate_memory(question).fits[0]:
            return False
        if {"tp", "system"} & fields.keys() and not stays_inside(question):
            return False
    except PerfatlasError:
        return False
    return _is_priced(question)


def stays_inside(question: Candidates) -> bool:
    """Return whether tensor parallelism stays inside a scale-up domain."""
    ranks, domain = float(question.plan.tp[0]), _domain(question)
    attention_dp = float(question.plan.attention_dp[0])
    return ranks * (attention_dp if attention_dp <= domain else 1.0) <= domain


def _domain(question: Candidates) -> int:
    return int(question.placement.systems[0].device.scale_up.domain_size)


def _smallest_plan(scenario: Scenario) -> tuple[str, ...]:
    """Return the smallest number of GPUs that fits a scenario without tp, and its plan.

    Beyond a scale-up domain whole domains are taken.
    """
    if scenario.gpus is None and any(getattr(scenario, name) is not None for name in PLAN):
        return ()
    if scenario.tp is not None:
        return ()
    resolved, _ = resolve_scenarios([scenario])
    if resolved is None:
        return ()
    domain, least = _domain(resolved), (scenario.gpus or 1) + 1
    whole = range(2 * domain, (MAX_DOMAINS + 1) * domain, domain)
    numbers = (*range(least, domain + 1), *(gpus for gpus in whole if gpus >= least))
    for gpus, question in _fitting_plans(scenario, numbers):
        if _is_priced(question):
            sizes = ", ".join(f"{name} = {size}" for name, size in resolved_plan(question).items())
            kind = "the fewest that fit" if gpus <= domain else "the fewest whole domains that fit"
            if scenario.gpus is not None and scenario.gpus > 1 and gpus <= domain:
                kind = f"the fewest above {scenario.gpus} that fit"
            return (f"set gpus = {gpus}, {kind} ({sizes}).",)
    return ()


def _fitting_plans(scenario: Scenario, numbers: Sequence[int]) -> Iterator[tuple[int, Candidates]]:
    """Return the numbers of GPUs whose plans are legal and fit, in order, each as a candidate.

    Ever more numbers are resolved at once: few where the first fits, and thousands in a few
    tables where a domain has thousands of GPUs.
    """
    first, size = 0, FIRST_NUMBERS
    while tried := numbers[first : first + size]:
        first, size = first + size, 2 * size
        scenarios = [scenario.changed(gpus=gpus) for gpus in tried]
        question, errors = resolve_scenarios(scenarios)
        if question is None:
            continue
        kept = [gpus for gpus, error in zip(tried, errors, strict=True) if error is None]
        problems = plan_problems(question.model.network, question.plan)
        legal = [at for at, problem in enumerate(problems) if problem is None]
        if not legal:
            continue
        fits_C = candidate_memory(question.take(legal)).fits
        for at in np.array(legal)[fits_C].tolist():
            yield kept[at], question.take([at])


def _is_priced(question: Candidates) -> bool:
    try:
        evaluate(question)
    except PerfatlasError:
        return False
    return True
