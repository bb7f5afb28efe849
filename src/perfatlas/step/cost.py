"""One step of one rank: what every operator costs, and their sum.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from perfatlas.collectives import CollectiveShapes, Implementation, price_collectives
from perfatlas.engines import all_reduce_groups
from perfatlas.kernels.tiers import price_operators
from perfatlas.operators import Collective
from perfatlas.step.fusion import exposed_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.kernels.tiers import PricedOperators
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.step.context import StepContext

Number = TypeVar("Number", bound=np.generic)


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
        measured_CO: Where measured rows corrected the physics (C, O).
        outside_CO: Octaves outside the shapes a calibration has seen (C, O).
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
    measured_CO: NDArray[np.bool_]
    outside_CO: FloatArray
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

    def least_s(self) -> FloatArray:
        """Return the step with every operator at its bound (C,) [s]."""
        return self._over_operators(self.bound_s_CO) + self.host_s_C

    def high_s(self) -> FloatArray:
        """Return the high end of the 90 % interval (C,) [s]; all errors are taken as shared."""
        return self._over_operators(self.high_s_CO) + self.host_s_C

    def bound_share(self) -> FloatArray:
        """Return the share of the step priced at the bound for want of kernels (C,)."""
        at_bound_C = self._over_operators(np.where(self.match_CO < 0, self.time_s_CO, 0.0))
        share_C: FloatArray = at_bound_C / np.maximum(self.total_s(), np.finfo(np.float64).tiny)
        return share_C


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of one rank, to be priced.

    Args:
        operators: What runs, collectives included, fusions applied.
        tokens_C: Tokens of the step (C,).
        host_s_C: Host work of the step (C,) [s].
    """

    operators: Sequence[Operator]
    tokens_C: FloatArray
    host_s_C: FloatArray


def price_steps(steps: Sequence[Step], context: StepContext) -> tuple[StepCost, ...]:
    """Return the cost of each step on one rank; shapes that steps share are priced once.

    Operators of one stream run one after the other, as inside a CUDA graph; host time that the
    engine hides behind the GPU shows only where it is longer.

    Args:
        steps: Steps of one question, such as its prefill and its decode.
        context: Engine, systems and tier.

    Limits: communication is not overlapped with computation.
    """
    compute = [[op for op in s.operators if not isinstance(op, Collective)] for s in steps]
    links = [[op for op in s.operators if isinstance(op, Collective)] for s in steps]
    devices, family = context.placement.devices(), context.profile.kernel_family
    priced = price_operators(
        list(chain(*compute)),
        devices,
        family=family,
        tier=context.tier,
        silicon_version=context.silicon_version,
    )
    moved = _price_links(list(chain(*links)), context)
    costs, first, first_link = [], 0, 0
    for step, own, between in zip(steps, compute, links, strict=True):
        mine = slice(first, first + len(own))
        theirs = slice(first_link, first_link + len(between))
        costs.append(
            _step_cost(step, (*own, *between), _Parts(priced, mine, moved, theirs), context)
        )
        first, first_link = mine.stop, theirs.stop
    return tuple(costs)


class _Parts(NamedTuple):
    """The columns of one step among those of all steps priced together."""

    priced: PricedOperators
    mine: slice
    moved: _Links
    theirs: slice

    def join(self, priced_CO: NDArray[Number], moved_CO: NDArray[Number]) -> NDArray[Number]:
        """Return the columns of the step's operators, its collectives last (C, O)."""
        return np.concatenate((priced_CO[:, self.mine], moved_CO[:, self.theirs]), axis=1)


def _step_cost(
    step: Step, operators: tuple[Operator, ...], parts: _Parts, context: StepContext
) -> StepCost:
    priced, moved, profile = parts.priced, parts.moved, context.profile
    count_CO = np.stack([op.count for op in operators], axis=1)
    offset_CO = np.where(moved.match_CO >= 0, moved.match_CO + len(priced.matches), -1)
    time_CO = parts.join(priced.time_s_CO, moved.time_s_CO)
    share_CO = exposed_share(operators, count_CO * time_CO, profile, step.tokens_C)
    gpu_s_C = (count_CO * time_CO * share_CO).sum(axis=1)
    host_s_C = step.host_s_C
    return StepCost(
        operators=operators,
        count_CO=count_CO,
        time_s_CO=time_CO * share_CO,
        low_s_CO=parts.join(priced.low_s_CO, moved.low_s_CO) * share_CO,
        high_s_CO=parts.join(priced.high_s_CO, moved.high_s_CO) * share_CO,
        bound_s_CO=parts.join(priced.bound_s_CO, moved.bound_s_CO) * share_CO,
        code_CO=parts.join(priced.code_CO, moved.code_CO),
        match_CO=parts.join(priced.match_CO, offset_CO),
        matches=(*priced.matches, *moved.matches),
        measured_CO=parts.join(priced.measured_CO, moved.measured_CO),
        outside_CO=parts.join(priced.outside_CO, np.zeros(moved.match_CO.shape)),
        host_s_C=np.maximum(host_s_C - gpu_s_C, 0.0) if profile.host.overlapped else host_s_C,
        rows=int(priced.rows_O[parts.mine].sum()),
        distinct=int(priced.distinct_O[parts.mine].sum()),
        notes=moved.notes,
    )


@dataclass(frozen=True, kw_only=True)
class _Links:
    """Prices of the collectives of steps (C, O)."""

    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    bound_s_CO: FloatArray
    code_CO: NDArray[np.int8]
    match_CO: IntArray
    measured_CO: NDArray[np.bool_]
    matches: tuple[CalibrationMatch, ...]
    notes: tuple[str, ...]


def _implementation(context: StepContext) -> Implementation:
    """Return whose collectives the engine runs."""
    return Implementation(
        family=context.profile.kernel_family,
        custom_groups=all_reduce_groups(context.profile),
        silicon_version=context.silicon_version,
    )


def _price_links(links: Sequence[Collective], context: StepContext) -> _Links:
    """Return the prices of collectives; those of one kind are priced together where they run."""
    placement = context.placement
    shape = (placement.index_C.shape[0], len(links))
    times = (np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape))
    code_CO, match_CO = np.zeros(shape, np.int8), np.full(shape, -1, np.int64)
    measured_CO = np.zeros(shape, np.bool_)
    known: list[CalibrationMatch] = []
    notes: dict[str, None] = {}
    by_op: dict[str, list[int]] = {}
    for place, link in enumerate(links):
        by_op.setdefault(link.op, []).append(place)
    for op, places in by_op.items():
        same = [links[place] for place in places]
        which_R, candidate_R = np.nonzero(np.stack([link.count for link in same]) > 0)
        if not which_R.size:
            continue
        at_R = (which_R, candidate_R)
        cost = price_collectives(
            CollectiveShapes(
                op=op,
                bytes=np.stack([link.bytes for link in same])[at_R],
                ranks=np.stack([link.ranks for link in same])[at_R],
                stride=np.stack([link.stride for link in same])[at_R],
            ),
            systems=placement.systems,
            system_index_U=placement.index_C[candidate_R],
            tier=context.tier,
            implementation=_implementation(context),
        )
        into = (candidate_R, np.array(places)[which_R])
        found = (cost.time_s_U, cost.low_s_U, cost.high_s_U, cost.bound_s_U)
        for part_CO, part_R in zip(times, found, strict=True):
            part_CO[into] = part_R
        code_CO[into], measured_CO[into] = cost.code_U, cost.measured_U
        match_CO[into] = np.where(cost.match_U >= 0, cost.match_U + len(known), -1)
        known += cost.matches
        notes |= dict.fromkeys(cost.notes)
    time_CO, low_CO, high_CO, bound_CO = times
    return _Links(
        time_s_CO=time_CO,
        low_s_CO=low_CO,
        high_s_CO=high_CO,
        bound_s_CO=bound_CO,
        code_CO=code_CO,
        match_CO=match_CO,
        measured_CO=measured_CO,
        matches=tuple(known),
        notes=tuple(notes),
    )
