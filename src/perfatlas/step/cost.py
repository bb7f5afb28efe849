"""One step of one rank: the prices of its operators, and its total cost.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.energy import with_energy
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
    """One step of one rank, before it is priced.

    Args:
        operators: Operators, including collectives, with fusions applied.
        tokens_C: Tokens of the step (C,).
        host_s_C: Host time of the step (C,) [s].
    """

    operators: Sequence[Operator]
    tokens_C: FloatArray
    host_s_C: FloatArray


@dataclass(frozen=True, kw_only=True)
class PricedStep:
    """One step whose operators are priced individually.

    Args:
        operators: Operators, collectives last (O).
        count_CO: Number of executions (C, O).
        prices: Prices of one execution each (C, O).
        tokens_C: Tokens of the step (C,).
        host_s_C: Host time of the step (C,) [s].
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
        operators: Operators, collectives last (O).
        count_CO: Number of executions (C, O).
        prices: Prices of one execution each (C, O); times exclude overlapped parts.
        host_s_C: Host time exposed by the step (C,) [s].
    """

    operators: tuple[Operator, ...]
    count_CO: FloatArray
    prices: PricedOperators
    host_s_C: FloatArray

    def total(self, name: str, some_O: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return the total of a column over the step, without host time (C,).

        Args:
            name: A summable column of `prices`, such as "flop_CO".
            some_O: Mask of the operators to include (O,), None for all.
        """
        return total(self.prices, name, self.count_CO, some_O)

    def total_s(self) -> FloatArray:
        """Return the time of the step (C,) [s]."""
        return self.total("time_s_CO") + self.host_s_C

    def low_s(self) -> FloatArray:
        """Return the lower end of the 90% interval (C,) [s], with fully correlated errors."""
        return self.total("low_s_CO") + self.host_s_C

    def least_s(self) -> FloatArray:
        """Return the roofline time of the step (C,) [s]."""
        return self.total("bound_s_CO") + self.host_s_C

    def high_s(self) -> FloatArray:
        """Return the upper end of the 90% interval (C,) [s], with fully correlated errors."""
        return self.total("high_s_CO") + self.host_s_C

    def operator_energy_j(self) -> FloatArray:
        """Return the dynamic energy of all executions of each operator (C, O) [J]."""
        each_CO = self.prices.chip_energy_j_CO + self.prices.memory_energy_j_CO
        energy_CO: FloatArray = self.count_CO * each_CO
        return energy_CO

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy of the step at full clock (C,) [J].

        Hidden operators count; the power drawn between kernels does not.
        """
        return self.total("chip_energy_j_CO") + self.total("memory_energy_j_CO")

    def bound_share(self) -> FloatArray:
        """Return the fraction of the step priced at the roofline for lack of calibrations (C,)."""
        time_s_CO = np.where(self.prices.match_CO < 0, self.prices.time_s_CO, 0.0)
        at_bound_C = (self.count_CO * time_s_CO).sum(axis=1)
        share_C: FloatArray = at_bound_C / np.maximum(self.total_s(), np.finfo(np.float64).tiny)
        return share_C


def price_steps(steps: Sequence[Step], context: StepContext) -> tuple[PricedStep, ...]:
    """Return the prices of each step on one rank; shared shapes are priced once.

    Args:
        steps: Steps of one scenario, such as prefill and decode.
        context: Engine, systems and tier.
    """
    return price_steps_at_clocks(steps, context, (1.0,))[0]


def price_steps_at_clocks(
    steps: Sequence[Step], context: StepContext, clock_ratios: Sequence[float]
) -> tuple[tuple[PricedStep, ...], ...]:
    """Return the prices of each step on one rank at several clocks; links are unaffected.

    Args:
        steps: Steps of one scenario.
        context: Engine, systems and tier.
        clock_ratios: Clocks relative to the clock of each candidate (K).

    Returns:
        The priced steps at each ratio (K).
    """
    compute = [[op for op in s.operators if not isinstance(op, Collective)] for s in steps]
    links = [[op for op in s.operators if isinstance(op, Collective)] for s in steps]
    devices = context.placement.devices()
    priced_K = price_at_clocks(
        list(chain(*compute)),
        devices,
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
        for found, priced, ratio in zip(found_K, priced_K, clock_ratios, strict=True):
            mine = select(priced, slice(first, first + len(own)))
            joined = join((mine, theirs))
            found.append(
                PricedStep(
                    operators=operators,
                    count_CO=count_CO,
                    prices=with_energy(operators, joined, devices.at_clock(ratio)),
                    tokens_C=step.tokens_C,
                    host_s_C=step.host_s_C,
                )
            )
        first, first_link = first + len(own), first_link + len(between)
    return tuple(tuple(found) for found in found_K)
