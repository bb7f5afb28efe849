"""Changes that make a scenario fit, each of which has been resolved, fitted and priced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.parallelism import plan_problems
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.resolution import resolve_scenarios, resolved_plan
from perfatlas.serving.closed_form import evaluate
from perfatlas.step import Candidates, candidate_memory, does_not_fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.fields import Scenario


PLAN: Final = ("gpus", "tp", "dp", "ep", "moe_tp")
MOST_DOMAINS: Final = 16


def fitting_changes(scenario: Scenario, question: Candidates) -> tuple[str, tuple[str, ...]]:
    """Return the memory shortfall of a scenario, and the changes with which it is answered.

    Args:
        scenario: The scenario.
        question: Its candidate, which does not fit.
    """
    sentence, advice = does_not_fit(question, lambda change: is_answered(scenario, change))
    return sentence, (*_smallest_plan(scenario), *advice)


def is_answered(scenario: Scenario, change: Mapping[str, float | str]) -> bool:
    """Return whether a scenario with some fields changed is legal, fits and has prices.

    Args:
        scenario: The scenario.
        change: Values by field; the GPUs in total follow from the plan.
    """
    fields: dict[str, Any] = {
        name: int(value) if isinstance(value, float) else value for name, value in change.items()
    }
    if not fields.keys().isdisjoint(("tp", "pp", "attention_dp")):
        fields["gpus"] = None
    if "format" in fields:
        fields |= {"gemm_format": None, "moe_format": None}
    try:
        question, problems = resolve_scenarios([scenario.model_copy(update=fields)])
        if question is None or any(problems):
            return False
        (problem,) = plan_problems(question.model.architecture, question.plan)
        if problem is not None or not candidate_memory(question).fits[0]:
            return False
        evaluate(question)
    except PerfatlasError:
        return False
    return True


def _smallest_plan(scenario: Scenario) -> tuple[str, ...]:
    """Return the smallest number of GPUs that fits a scenario without a plan, and its plan."""
    if any(getattr(scenario, name) is not None for name in PLAN):
        return ()
    resolved, _ = resolve_scenarios([scenario])
    if resolved is None:
        return ()
    domain = int(resolved.placement.systems[0].device.scale_up.domain_size)
    for gpus in (*range(2, domain + 1), *(domain * many for many in range(2, MOST_DOMAINS + 1))):
        question, _ = resolve_scenarios([scenario.model_copy(update={"gpus": gpus})])
        if question is None or plan_problems(question.model.architecture, question.plan)[0]:
            continue
        if candidate_memory(question).fits[0]:
            sizes = ", ".join(f"{name} = {size}" for name, size in resolved_plan(question).items())
            return (f"set gpus = {gpus}, the fewest that fit ({sizes}).",)
    return ()
