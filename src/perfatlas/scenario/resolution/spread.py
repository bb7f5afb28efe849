"""Many candidates of one resolved scenario: other plans, loads and limits.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.scenario.resolution.default_limits import LimitedLoad, filled_limits

if TYPE_CHECKING:
    from perfatlas.parallelism import PlanColumns
    from perfatlas.step import Candidates, EngineLimits, Load

# columns of candidates that are spread; all else is that of the scenario
SPREAD: Final = ("plan", "load", "limits", "recipe_C")


def spread_candidates(
    base: Candidates, plan: PlanColumns, load: Load, limits: EngineLimits
) -> Candidates:
    """Return candidates with the model, engine, formats and system of one resolved scenario.

    Limits that are not given are filled in as for a scenario that states the load.

    Args:
        base: Candidates, of which the first is read.
        limits: Their limits, NaN where not given.
    """
    moved = replace(base.take([0] * load.isl.size), plan=plan, load=load)
    limited = LimitedLoad(
        isl=load.isl,
        requests=np.ceil(load.sequences),
        attention_dp=plan.attention_dp,
        gpus=plan.gpus_per_replica,
        pooled=base.pooled,
    )
    filled, recipe_C = filled_limits(
        limits, base.model.base, base.profile, moved.placement, limited
    )
    return replace(moved, limits=filled, recipe_C=recipe_C)
