"""Results of one scenario on hardware that differs from its own, in one vectorised evaluation.

Shape legend: N changes, S distinct systems.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import Number
from perfatlas.hardware import FIELDS, KINDS, field_values, with_values
from perfatlas.inference import PoolRates, SplitLayers, SplitLoad, evaluate, result_columns
from perfatlas.scenario.deployments import evaluated_pools
from perfatlas.scenario.fields import columns_of
from perfatlas.scenario.resolution import pool_load, split_load
from perfatlas.step import candidate_memory, take_columns
from perfatlas.studies.factors import FRONT_END, HOST, PEAK, factors_of, scaled_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import System
    from perfatlas.inference import PoolLoad
    from perfatlas.scenario.fields import Scenario
    from perfatlas.step import Candidates
    from perfatlas.studies.factors import Factor

    FloatArray = NDArray[np.float64]
    Change = Mapping[str, float]


OF_DEVICE: Final = ("max_num_seqs", "max_num_batched_tokens")
MIN_VALUE: Final = 1e-12  # of a field whose range starts at 0
INSIDE: Final = 1.0 - 1e-9  # a ratio that ends at a limit stays inside it in spite of rounding


@dataclass(frozen=True, kw_only=True)
class ScaledScenario:
    """A scenario whose closed forms can be evaluated with factors scaled by ratios.

    Plan, limits, formats and kernels are those of the scenario for all changes.
    """

    # The candidate of one pool, or those of a prefill and a decode worker, or of the parts of split
    # layers (1)
    pools: tuple[Candidates, ...]
    # Workers and requests in flight of two pools, or replicas of split layers
    load: PoolLoad | SplitLoad | None
    factors: tuple[Factor, ...]

    @property
    def systems(self) -> tuple[System, ...]:
        """The system of each pool."""
        return tuple(pool.placement.systems[int(pool.placement.index_C[0])] for pool in self.pools)

    def values(self, name: str) -> tuple[float, ...]:
        """Return the value of a hardware field in each pool [SI]."""
        return tuple(float(field_values(system)[name]) for system in self.systems)

    def most(self, name: str, ratio: float) -> float:
        """Return the largest ratio up to a limit that keeps a factor and its inverse allowed.

        Args:
            ratio: The limit, above 1.
        """
        if name not in FIELDS:
            return ratio
        reader = FIELDS[name].reader
        if isinstance(reader, Number):
            for value in self.values(name):
                ends = reader.most / value, value / max(reader.least, MIN_VALUE)
                ratio = min(ratio, *(INSIDE * end for end in ends))
        return max(ratio, 1.0)

    def results(self, changes: Sequence[Change]) -> dict[str, FloatArray]:
        """Return the result columns of `estimate` by closed forms under each change (N,).

        Args:
            changes: Ratio of each scaled factor, by name; other factors keep their value (N).
        """
        rows: dict[tuple[float, float], list[int]] = {}
        for index, change in enumerate(changes):
            times = (change.get(HOST, 1.0), change.get(FRONT_END, 1.0))
            rows.setdefault(times, []).append(index)
        columns: dict[str, FloatArray] = {}
        for (host, front), indices in rows.items():
            results = self._evaluated([changes[index] for index in indices], host, front)
            for name, values in results.items():
                whole = columns.setdefault(name, np.full(len(changes), np.nan))
                whole[indices] = values
        return columns

    @property
    def engine_limits(self) -> dict[str, int]:
        """Limits of the first engine whose defaults depend on the device, where it has them."""
        limits = self.pools[0].limits
        values = {name: float(getattr(limits, name)[0]) for name in OF_DEVICE}
        return {name: int(value) for name, value in values.items() if np.isfinite(value)}

    def fits(self, changes: Sequence[Change]) -> NDArray[np.bool_]:
        """Return whether the memory of all pools holds the model and all requests in flight (N,).

        Args:
            changes: As for `results`.
        """
        fits = np.ones(len(changes), np.bool_)
        for pool in self.pools:
            question = _on_systems(pool, changes)
            memory = candidate_memory(question)
            on_rank = np.ceil(question.load.sequences / question.plan.attention_dp)
            fits &= memory.fits & (on_rank <= memory.max_sequences)
        return fits

    def _evaluated(
        self, changes: Sequence[Change], host: float, front: float
    ) -> dict[str, FloatArray]:
        """Return the results of changes that share the times of the engine."""
        questions = [
            replace(_on_systems(pool, changes), profile=scaled_profile(pool.profile, host, front))
            for pool in self.pools
        ]
        if self.load is None:
            return result_columns(questions[0], evaluate(questions[0]))
        pair, other = ((question, evaluate(question)) for question in questions)
        first = np.zeros(len(changes), np.int64)
        if isinstance(self.load, SplitLoad):
            split = SplitLoad(*(values[first] for values in self.load))
            return SplitLayers(load=split, attention=pair, feed_forward=other).columns()
        load = replace(self.load, **take_columns(self.load, first))
        return PoolRates(load=load, prefill=pair, decode=other).columns()


def scaled_scenario(scenario: Scenario) -> ScaledScenario:
    """Return a scenario whose hardware and engine times can be scaled.

    Args:
        scenario: The scenario; in tier measured, tier physics is used, since corrections by
            measured rows hold only for the measured hardware.
    """
    physics: dict[str, Any] = {"tier": "physics", "silicon_version": None}
    scenario = scenario.changed(**(physics if scenario.tier == "measured" else {}))
    pools = tuple(pool.candidates for pool in evaluated_pools(scenario))
    load: PoolLoad | SplitLoad | None = None
    if len(pools) > 1:
        loaded = split_load if scenario.feed_forward_system else pool_load
        load = loaded(columns_of([scenario]))
    made = ScaledScenario(pools=pools, load=load, factors=())
    return replace(made, factors=factors_of(made.systems))


def _on_systems(pool: Candidates, changes: Sequence[Change]) -> Candidates:
    """Return the candidate of a pool on the changed systems (N)."""
    index_of: dict[tuple[tuple[str, float], ...], int] = {}
    index = np.empty(len(changes), np.int64)
    systems: list[System] = []
    base = pool.placement.systems[int(pool.placement.index_C[0])]
    values = field_values(base)
    for position, change in enumerate(changes):
        ratios = tuple(
            (name, ratio)
            for name, ratio in change.items()
            if name not in (HOST, FRONT_END) and ratio != 1.0
        )
        if ratios not in index_of:
            index_of[ratios] = len(systems)
            changed = _scaled(values, dict(ratios), KINDS[base.device.kind].count)
            systems.append(with_values(base, changed) if ratios else base)
        index[position] = index_of[ratios]
    spread = pool.take([0] * len(changes))
    placement = replace(spread.placement, systems=tuple(systems), index_C=index)
    return replace(spread, placement=placement)


def _scaled(values: Mapping[str, Any], change: Change, count: str) -> dict[str, float]:
    """Return the new values of a change; a peak is relative to the peak at the new clock."""
    every = change.get("device.clock.peak", 1.0) * change.get(count, 1.0)
    return {
        name: float(values[name]) * ratio * (every if name.startswith(PEAK) else 1.0)
        for name, ratio in change.items()
    }
