"""Compose the priced operators of a step into its cost.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.pricing import exposed
from perfatlas.step.cost import StepCost, price_steps
from perfatlas.step.fusion import exposed_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.step.context import StepContext
    from perfatlas.step.cost import PricedStep, Step


def step_costs(steps: Sequence[Step], context: StepContext) -> tuple[StepCost, ...]:
    """Return the cost of each step on one rank, with its operators in one stream.

    Args:
        steps: Steps of one scenario, such as prefill and decode; shared shapes are priced once.
        context: Engine, systems and tier.
    """
    priced = price_steps(steps, context)
    return tuple(compose_single_stream(step, context.profile) for step in priced)


def compose_single_stream(step: PricedStep, profile: EngineProfile) -> StepCost:
    """Return the cost of a step whose operators run back to back, as in a CUDA graph.

    Operators on a second stream cost only the time by which they exceed the overlapped operator;
    overlapped host time costs only the time by which it exceeds that of the GPU.

    Args:
        step: The step with its priced operators.
        profile: The engine, with its overlaps and host costs.

    Limits: Communication is not overlapped with computation.
    """
    busy_s_CO = step.count_CO * step.prices.time_s_CO
    share_CO = exposed_share(step.operators, busy_s_CO, profile, step.tokens_C)
    host_s_C = step.host_s_C
    if profile.host.overlapped:
        host_s_C = np.maximum(host_s_C - (busy_s_CO * share_CO).sum(axis=1), 0.0)
    return StepCost(
        operators=step.operators,
        count_CO=step.count_CO,
        prices=exposed(step.prices, share_CO),
        host_s_C=host_s_C,
    )
