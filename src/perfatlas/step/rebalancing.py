"""The cost of placing experts anew while serving (EPLB), as a share of every step.

Shape legend: C candidates.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.operators import Group, with_fields
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import Operator
    from perfatlas.step.context import StepContext

_DATA: Final = "data/expert_rebalancing.toml"


@cache
def rebalance_rates(engine: str) -> dict[str, Any]:
    """Return host_s of a rebalance and layer_s of each MoE layer [s], with date and source.

    Raises:
        UnsupportedError: No rebalance of the engine is published.
    """
    table: dict[str, Any] = shipped_table(_DATA)
    if engine not in table:
        raise UnsupportedError(
            f"eplb_step_interval: the time of a rebalance of {engine} is not known; set engine ="
            f" {' or '.join(table)}, or leave it out, so that rebalances are not counted"
        )
    return dict(table[engine])


def rebalancing(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the part of a rebalance that falls on one step, nothing where none is counted.

    Every rank receives all of its experts, layer by layer, and waits for the host: a transfer, and
    a pause that has neither bytes nor a roofline.

    Args:
        operators: Operators of the step on one rank.

    Source: vllm-project/vllm, distributed/eplb/rebalance_execute.py; its pull request 37656: a
        placement is computed without regard to the one before, so that nearly all experts move.
        Times: data/expert_rebalancing.toml.
    Limits: A blocking rebalance; one beside the steps (use_async) costs less. In tier bound
        nothing is counted, as an assumed time is no lower limit.
    """
    experts = next((op for op in operators if op.routed), None)
    if not context.rebalance_steps or experts is None or context.tier == "bound":
        return ()
    layers = sum(group.count for group in context.network.layers if group.experts is not None)
    rates, plan = rebalance_rates(context.profile.name), context.plan
    held_bytes = sum(
        (w.elements() * w.bytes_per_element for w in experts.weights()), np.zeros_like(plan.ep)
    )
    moved = experts.collective(
        "all_to_all", held_bytes, Group(ranks=plan.ep, stride=plan.moe_tp), label="rebalance"
    )
    often_C = np.where(plan.ep > 1, layers / context.rebalance_steps, 0.0)
    moved = with_fields(moved, count=often_C)
    pause_s = rates["layer_s"] + rates["host_s"] / layers
    pause = with_fields(moved, name=f"{moved.name}_pause", pause_s=pause_s)
    return (moved, pause) if pause_s else (moved,)
