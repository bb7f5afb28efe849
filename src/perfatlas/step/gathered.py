"""Steps whose shapes are gathered once, to be priced at several clocks.

Shape legend: C candidates, O operators, S steps, X some candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.energy import with_energy
from perfatlas.machines import gather_operators
from perfatlas.operators import Collective, take_candidates, with_fields
from perfatlas.pricing import following_clock, join, select, take
from perfatlas.step.attention_speed import with_attention_speed
from perfatlas.step.cost import PricedStep, Step
from perfatlas.step.expert_tiles import with_untuned_experts
from perfatlas.step.graph_kernels import with_encoder_attention, with_graph_kernels
from perfatlas.step.links import price_links

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import ClockPrices, DeviceColumns, GatheredOperators
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.step.context import StepContext


def gather_steps(steps: Sequence[Step], context: StepContext) -> GatheredSteps:
    """Return steps on one rank whose shapes are gathered; shared shapes are priced once.

    Args:
        steps: Steps of one scenario, such as prefill and decode.
        context: Engine, systems and tier; its clocks and power limits are not read.
    """
    compute = [[op for op in s.operators if not op.communicates] for s in steps]
    links = [[op for op in s.operators if isinstance(op, Collective)] for s in steps]
    devices = context.placement.sustained()
    gathered = gather_operators(
        list(chain(*compute)),
        devices,
        family=context.profile.kernels,
        tier=context.tier,
        silicon_version=context.silicon_version,
    )
    operators = tuple((*own, *between) for own, between in zip(compute, links, strict=True))
    return GatheredSteps(
        steps=tuple(steps),
        operators=operators,
        counts=tuple(np.stack([op.count for op in own], axis=1) for own in operators),
        profile=context.profile,
        devices=devices,
        gathered=gathered,
        moved=price_links(list(chain(*links)), context),
        contends=context.tier != "bound",
        zeros_C=context.placement.zeros_C,
    )


@dataclass(frozen=True, kw_only=True)
class GatheredSteps:
    """Steps whose shapes are gathered, to be priced at several clocks; links are unaffected."""

    steps: tuple[Step, ...]  # The steps (S)
    operators: tuple[tuple[Operator, ...], ...]  # Operators of each step, collectives last (S)
    counts: tuple[FloatArray, ...]  # Executions of each operator of each step (S), each (C, O)
    profile: EngineProfile
    devices: DeviceColumns  # Device of each candidate at its sustained clock
    gathered: GatheredOperators  # Operators of all steps without collectives
    moved: PricedOperators  # Prices of the collectives of all steps
    contends: bool  # Whether streams slow each other down
    zeros_C: NDArray[np.bool_] | None  # Whether all tensors hold zeros (C,); None if none do

    @property
    def one_family(self) -> bool:
        """Whether the kernels of one family run, at any clock."""
        return len(self.gathered.families) == 1

    def full(self, *, random: bool = False) -> tuple[PricedStep, ...]:
        """Return the prices of each step at the sustained clock."""
        if random:
            return self._priced(self.gathered.full(), random=True)
        return self._sustained

    def at(
        self, ratio_SC: FloatArray, last: ClockPrices | None = None
    ) -> tuple[tuple[PricedStep, ...], ClockPrices]:
        """Return the prices of each step at other clocks, as steps and as their operators."""
        widths = [own - links for own, links in self._widths()]
        found = self.gathered.at(np.repeat(ratio_SC, widths, axis=0).T, last)
        if not self.one_family:  # another family may be the fastest at another clock
            return self._priced(found.fastest()), found
        return self._at_clock(found.families[0]), found

    def take(self, some_X: IntArray) -> GatheredSteps:
        """Return the steps of some candidates."""
        every = self.devices.index_C.size
        return GatheredSteps(
            steps=tuple(take_candidates(step, some_X, every) for step in self.steps),
            operators=tuple(
                tuple(take_candidates(operator, some_X, every) for operator in own)
                for own in self.operators
            ),
            counts=tuple(count_CO[some_X] for count_CO in self.counts),
            profile=self.profile,
            devices=self.devices.take(some_X),
            gathered=self.gathered.take(some_X),
            moved=take(self.moved, some_X),
            contends=self.contends,
            zeros_C=None if self.zeros_C is None else self.zeros_C[some_X],
        )

    def _widths(self) -> list[tuple[int, int]]:
        """Return the number of operators of each step, and of its collectives (S)."""
        return [
            (len(own), sum(operator.communicates for operator in own)) for own in self.operators
        ]

    def _priced(self, prices: PricedOperators, *, random: bool = False) -> tuple[PricedStep, ...]:
        found, first, first_link = [], 0, 0
        for index, (all_, links) in enumerate(self._widths()):
            own = all_ - links
            mine = select(prices, slice(first, first + own))
            theirs = select(self.moved, slice(first_link, first_link + links))
            found.append(self._step(index, join((mine, theirs)), random=random))
            first, first_link = first + own, first_link + links
        return tuple(found)

    def _at_clock(self, prices: PricedOperators) -> tuple[PricedStep, ...]:
        """Return the prices of each step at other clocks; only what follows the clock is joined."""
        found, first = [], 0
        for index, ((all_, links), full) in enumerate(
            zip(self._widths(), self._sustained, strict=True)
        ):
            own = all_ - links
            changed = {
                name: np.concatenate(
                    (
                        getattr(prices, name)[:, first : first + own],
                        getattr(full.prices, name)[:, own:],
                    ),
                    axis=1,
                )
                for name in following_clock(prices)
            }
            found.append(self._step(index, with_fields(full.prices, **changed)))
            first += own
        return tuple(found)

    @cached_property
    def _sustained(self) -> tuple[PricedStep, ...]:
        return self._priced(self.gathered.full())

    def _step(self, place: int, prices: PricedOperators, *, random: bool = False) -> PricedStep:
        """Return one step with the energies of its operators."""
        operators, zeros_C = self.operators[place], None if random else self.zeros_C
        if self.contends:  # tier bound has no intervals
            prices = with_untuned_experts(prices, operators, self.profile, self.devices)
            prices = with_attention_speed(prices, operators, self.profile, self.devices)
            prices = with_graph_kernels(prices, operators, self.profile, self.devices)
            prices = with_encoder_attention(prices, operators, self.devices)
        return PricedStep(
            operators=operators,
            count_CO=self.counts[place],
            prices=with_energy(operators, prices, self.devices, zeros_C),
            step=self.steps[place],
            devices=self.devices,
            contends=self.contends,
        )
