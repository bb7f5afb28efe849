"""The best plan of a search by closed forms alone, for questions that ask many searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import UnsupportedError
from perfatlas.studies.deployments.find import find_deployments, within_slos
from perfatlas.studies.deployments.leaders import closed_form_leaders, simplest_first
from perfatlas.studies.deployments.pools import find_pools
from perfatlas.studies.deployments.reasons import no_plan
from perfatlas.studies.deployments.rows import estimate_fields

if TYPE_CHECKING:
    from perfatlas.studies.deployments.question import SearchInputs


def best_plan_fields(inputs: SearchInputs) -> dict[str, Any]:
    """Return the fields with which `estimate` prices the plan that `search` ranks first.

    Raises:
        InfeasibleError: No plan fits, or none meets the limits.
        UnsupportedError: The objective is not known for the system.
    """
    find = find_pools if inputs.mode == "disaggregated" else find_deployments
    found = find(inputs, None)
    if found.size and not found.has_scores:
        raise UnsupportedError(
            f"objective = {inputs.objective} is not known for system = {inputs.system}; use another"
            " objective"
        )
    if not within_slos(found, inputs):
        raise no_plan(found, inputs)
    best = simplest_first(closed_form_leaders(found, inputs, inputs.num_plans + 1), inputs)[0][0]
    return estimate_fields(found, best.row, best.index, inputs)
