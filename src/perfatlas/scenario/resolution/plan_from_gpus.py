"""Scenarios with the plan that a number of GPUs implies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.scenario.resolution.default_plans import has_free_plan
from perfatlas.scenario.resolution.field_columns import columns_of
from perfatlas.scenario.resolution.resolved_names import resolved_plan
from perfatlas.scenario.resolution.resolved_scenario import resolve_scenarios

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario


def planned_scenario(scenario: Scenario) -> Scenario:
    """Return a scenario with its plan where it states only a number of GPUs.

    Args:
        scenario: The scenario; it is returned unchanged if it states a plan, or has none.

    Raises:
        PerfatlasError: The model, engine or format cannot be resolved.

    Example:
        >>> from perfatlas.scenario.fields import Scenario
        >>> from perfatlas.scenario.resolution import planned_scenario
        >>> asked = Scenario(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=16)
        >>> planned_scenario(asked).tp, planned_scenario(asked).dp
        (1, 16)
    """
    if scenario.mode == "disaggregated" or not has_free_plan(columns_of([scenario]))[0]:
        return scenario
    question, _ = resolve_scenarios([scenario])
    if question is None:
        return scenario
    return scenario.model_copy(update=resolved_plan(question))
