"""One step of one rank: the prices of its operators, and what it costs as a whole.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.kernels.tiers import price_at_clocks
from perfatlas.operators import Collective
from perfatlas.pricing import join, select, total
from perfatlas.step.links import price_links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.step.context import StepContext


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


@dataclass(frozen=True, kw_only=True)
class PricedStep:
    """One step whose operators are priced, each as if it ran alone.

    Args:
        operators: What runs, collectives last (O).
        count_CO: Executions (C, O).
        prices: Of one execution each (C, O).
        tokens_C: Tokens of the step (C,).
        host_s_C: Host work of the step (C,) [s].
    """

    operators: tuple[Operator, ...]
    count_CO: FloatArray
    prices: PricedOperators
    tokens_C: FloatArray
    host_s_C: FloatArray


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The cost of one step, operator by operator.

    Args:
        operators: What ran, collectives last (O).
        count_CO: Executions (C, O).
        prices: Of one execution each (C, O); of times only what no other operator hides.
        host_s_C: Host time exposed by the step (C,) [s].
    """

    operators: tuple[Operator, ...]
    count_CO: FloatArray
    prices: PricedOperators
    host_s_C: FloatArray

    def total(self, name: str, some_O: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return a quantity of the whole step without host time (C,).

        Args:
            name: A column of `prices` that is summed, such as "flop_CO".
            some_O: Which operators are counted (O,), None for all.
        """
        return total(self.prices, name, self.count_CO, some_O)

    def total_s(self) -> FloatArray:
        """Return the time of the step (C,) [s]."""
        return self.total("time_s_CO") + self.host_s_C

    def low_s(self) -> FloatArray:
        """Return the low end of the 90 % interval (C,) [s]; all errors are taken as shared."""
        return self.total("low_s_CO") + self.host_s_C

    def least_s(self) -> FloatArray:
        """Return the step with every operator at its bound (C,) [s]."""
        return self.total("bound_s_CO") + self.host_s_C

    def high_s(self) -> FloatArray:
        """Return the high end of the 90 % interval (C,) [s]; all errors are taken as shared."""
        return self.total("high_s_CO") + self.host_s_C

    def bound_share(self) -> FloatArray:
        """Return the share of the step priced at the bound for want of kernels (C,)."""
        time_s_CO = np.where(self.prices.match_CO < 0, self.prices.time_s_CO, 0.0)
        at_bound_C = (self.count_CO * time_s_CO).sum(axis=1)
        share_C: FloatArray = at_bound_C / np.maximum(self.total_s(), np.finfo(np.float64).tiny)
        return share_C


def price_steps(steps: Sequence[Step], context: StepContext) -> tuple[PricedStep, ...]:
    """Return the prices of each step on one rank; shapes that steps share are priced once.

    Args:
        steps: Steps of one question, such as its prefill and its decode.
        context: Engine, systems and tier.
    """
    return price_steps_at_clocks(steps, context, (1.0,))[0]


def price_steps_at_clocks(
    steps: Sequence[Step], context: StepContext, clock_ratios: Sequence[float]
) -> tuple[tuple[PricedStep, ...], ...]:
    """Return the prices of each step on one rank at several clocks; links do not follow them.

    Args:
        steps: Steps of one question.
        context: Engine, systems and tier.
        clock_ratios: Over the clock of each candidate (K).

    Returns:
        The steps at each ratio (K).
    """
    compute = [[op for op in s.operators if not isinstance(op, Collective)] for s in steps]
    links = [[op for op in s.operators if isinstance(op, Collective)] for s in steps]
    priced_K = price_at_clocks(
        list(chain(*compute)),
        context.placement.devices(),
        clock_ratios,
        family=context.profile.kernel_family,
        tier=context.tier,
        silicon_version=context.silicon_version,
    )
    moved = price_links(list(chain(*links)), context)
    found_K: list[list[PricedStep]] = [[] for _ in clock_ratios]
    first, first_link = 0, 0
    for step, own, between in zip(steps, compute, links, strict=True):
        operators = (*own, *between)
        count_CO = np.stack([op.count for op in operators], axis=1)
        theirs = select(moved, slice(first_link, first_link + len(between)))
        for found, priced in zip(found_K, priced_K, strict=True):
            mine = select(priced, slice(first, first + len(own)))
            found.append(
                PricedStep(
                    operators=operators,
                    count_CO=count_CO,
                    prices=join((mine, theirs)),
                    tokens_C=step.tokens_C,
                    host_s_C=step.host_s_C,
                )
            )
        first, first_link = first + len(own), first_link + len(between)
    return tuple(tuple(found) for found in found_K)
