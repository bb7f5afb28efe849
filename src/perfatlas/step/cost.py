"""One step of one rank: what every operator costs, and their sum.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.collectives import CollectiveShapes, PricedCollectives, price_collectives
from perfatlas.kernels import price_operators
from perfatlas.operators import Collective
from perfatlas.step.fusion import exposed_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.measurements import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.step.context import StepContext


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The cost of one step, operator by operator; times are per execution.

    Args:
        operators: What ran (O).
        count_CO: Executions (C, O).
        time_s_CO: Predicted time of one execution (C, O) [s].
        low_s_CO: 5 % quantile (C, O) [s].
        high_s_CO: 95 % quantile (C, O) [s].
        bound_s_CO: Least possible time (C, O) [s].
        code_CO: Bound code (C, O).
        match_CO: Position in `matches`, -1 for tier bound (C, O).
        matches: Calibrations used.
        host_s_C: Host time exposed by the step (C,) [s].
        rows: Operator shapes priced by physics.
        distinct: Distinct ones among them.
        notes: Sentences for the evidence.
    """

    operators: tuple[Operator, ...]
    count_CO: FloatArray
    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    bound_s_CO: FloatArray
    code_CO: NDArray[np.int8]
    match_CO: IntArray
    matches: tuple[CalibrationMatch, ...]
    host_s_C: FloatArray
    rows: int
    distinct: int
    notes: tuple[str, ...]

    def _over_operators(self, each_s_CO: FloatArray) -> FloatArray:
        total_C: FloatArray = (self.count_CO * each_s_CO).sum(axis=1)
        return total_C

    def total_s(self) -> FloatArray:
        """Return the time of the step (C,) [s]."""
        return self._over_operators(self.time_s_CO) + self.host_s_C

    def low_s(self) -> FloatArray:
        """Return the low end of the 90 % interval (C,) [s]; all errors are taken as shared."""
        return self._over_operators(self.low_s_CO) + self.host_s_C

    def high_s(self) -> FloatArray:
        """Return the high end of the 90 % interval (C,) [s]; all errors are taken as shared."""
        return self._over_operators(self.high_s_CO) + self.host_s_C


def price_step(
    operators: Sequence[Operator],
    context: StepContext,
    *,
    tokens_C: FloatArray,
    host_s_C: FloatArray,
) -> StepCost:
    """Return the cost of one step on one rank.

    Operators of one stream run one after the other, as inside a CUDA graph; host time that the
    engine hides behind the GPU shows only where it is longer.

    Args:
        operators: One rank's operators with fusions applied.
        context: Engine, systems and tier.
        tokens_C: Tokens of the step (C,).
        host_s_C: Host work of the step (C,) [s].

    Limits: communication is not overlapped with computation.
    """
    profile = context.profile
    compute = [op for op in operators if not isinstance(op, Collective)]
    links = [op for op in operators if isinstance(op, Collective)]
    priced = price_operators(
        compute, context.placement.devices(), family=profile.kernel_family, tier=context.tier
    )
    count_CO = np.stack([op.count for op in (*compute, *links)], axis=1)
    parts = [priced.time_s_CO, priced.low_s_CO, priced.high_s_CO, priced.bound_s_CO]
    codes, matches = priced.code_CO, priced.match_CO
    known = list(priced.matches)
    notes: dict[str, None] = {}
    for op in links:
        cost = _price_collective(op, context)
        notes |= dict.fromkeys(cost.notes)
        added = (cost.time_s_U, cost.low_s_U, cost.high_s_U, cost.bound_s_U)
        parts = [np.column_stack((p, a)) for p, a in zip(parts, added, strict=True)]
        codes = np.column_stack((codes, cost.code_U))
        offset_U = np.where(cost.match_U >= 0, cost.match_U + len(known), -1)
        matches = np.column_stack((matches, offset_U))
        known += cost.matches
    share_CO = exposed_share((*compute, *links), count_CO * parts[0], profile, tokens_C)
    parts = [part * share_CO for part in parts]
    gpu_s_C = (count_CO * parts[0]).sum(axis=1)
    exposed = np.maximum(host_s_C - gpu_s_C, 0.0) if profile.host.overlapped else host_s_C
    return StepCost(
        operators=(*compute, *links),
        count_CO=count_CO,
        time_s_CO=parts[0],
        low_s_CO=parts[1],
        high_s_CO=parts[2],
        bound_s_CO=parts[3],
        code_CO=codes.astype(np.int8),
        match_CO=matches,
        matches=tuple(known),
        host_s_C=exposed,
        rows=priced.rows,
        distinct=priced.distinct,
        notes=tuple(notes),
    )


def _price_collective(op: Collective, context: StepContext) -> PricedCollectives:
    return price_collectives(
        CollectiveShapes(op=op.op, bytes=op.bytes, ranks=op.ranks, stride=op.stride),
        systems=context.placement.systems,
        system_index_U=context.placement.index_C,
        tier=context.tier,
        family=context.profile.kernel_family,
        custom_max_bytes=context.profile.all_reduce.max_bytes,
    )
