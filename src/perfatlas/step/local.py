"""Operators of a model on one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.operators import with_fields
from perfatlas.parallelism import shard_operators
from perfatlas.step.fusion import apply_fusions, split_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import Operator
    from perfatlas.step.context import StepContext


def run_locally(whole: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators of one rank with its collectives; fused ones have count 0."""
    loaded = tuple(
        with_fields(op, distribution=context.expert_distribution) if op.routed else op
        for op in whole
    )
    local = shard_operators(
        loaded,
        context.plan,
        context.network,
        expert_exchange=context.profile.expert_exchange,
        domain=context.placement.domain(),
        balanced_tables=context.tier == "bound",
    )
    return split_kernels(apply_fusions(local, context), context)
