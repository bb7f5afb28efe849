"""Energy of simulated runs: by hand, proportional to time, and limited by the power of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config import Control, EngineFleet, ReplicaGroup, SchedulerLimits
from perfatlas.serving.outcome import Outcome
from perfatlas.serving.prices import TERMS, EnergyPrices, StepPrices
from perfatlas.serving.run.simulate import run_fleet
from tests.serving.serving_support import flat_prices, random_prices, requests_of, scaled

MS = 10**9
ROOMY = SchedulerLimits(4, 64, 4, 100)
HIGH = 1e9  # nJ/ps: no limit
NO_TABLES: Mapping[str, Any] = {}
BOTH = pytest.mark.parametrize("control", [Control(), Control(coalesce=False)])


def energies(
    prices: StepPrices, factor: int, changed: Mapping[str, Any] = NO_TABLES, **changes: float
) -> EnergyPrices:
    """Return energies of `factor` nJ per picosecond of device time, and of changed tables [nJ]."""
    tables = prices._replace(**{name: factor * getattr(prices, name) for name in TERMS})
    powers: dict[str, Any] = {"dynamic_power": HIGH, "on_power": 0.0, "rank_gpus": 1, **changes}
    return EnergyPrices(tables._replace(**changed), **powers)


def simulated(rows: list[tuple[int, int, int]], group: ReplicaGroup, control: Control) -> Outcome:
    return run_fleet(requests_of(rows), EngineFleet((group,)), control=control)


@BOTH
def test_energy_of_a_request_by_hand(control: Control) -> None:
    # a prompt of 8 tokens in a step of 100 ms at 3 J, then three decode steps of 10 ms at 1 J and
    # 0.5 J for each of the 9, 10 and 11 keys
    prices = flat_prices(10 * MS, 100 * MS)
    energy = energies(
        prices,
        0,
        {
            "mixed_linear_T": np.full_like(prices.mixed_linear_T, 3 * 10**9),
            "decode_linear_B": np.full_like(prices.decode_linear_B, 10**9),
            "decode_slope_BK": np.full_like(prices.decode_slope_BK, 5 * 10**8),
        },
    )
    outcome = simulated([(0, 8, 4)], ReplicaGroup(prices, ROOMY, energy=energy), control)
    assert outcome.energy.prompt_j_F.tolist() == [3.0]
    assert outcome.energy.dynamic_j_F.tolist() == [3.0 + 3.0 + 0.5 * (9 + 10 + 11)]
    assert outcome.energy.prompts_F.tolist() == [100 * MS]


@BOTH
def test_a_prompt_spends_what_its_step_spends_beyond_its_decodes(control: Control) -> None:
    # B's prompt runs in a step with a decode of A: 30 J, of which the decode alone takes 2 J
    prices = flat_prices(10 * MS, 100 * MS)
    energy = energies(
        prices,
        0,
        {
            "mixed_linear_T": np.full_like(prices.mixed_linear_T, 30 * 10**9),
            "decode_linear_B": np.full_like(prices.decode_linear_B, 2 * 10**9),
        },
    )
    group = ReplicaGroup(prices, ROOMY, energy=energy)
    outcome = simulated([(0, 8, 4), (50 * MS, 8, 1)], group, control)
    assert outcome.energy.prompt_j_F.tolist() == [30.0 + 28.0]
    assert outcome.energy.dynamic_j_F.tolist() == [30.0 + 30.0 + 2 * 2.0]
    assert outcome.energy.prompts_F.tolist() == [100 * MS + 90 * MS]


@pytest.mark.parametrize("seed", range(6))
@BOTH
def test_proportional_energy_is_power_times_busy_time(control: Control, seed: int) -> None:
    draw = np.random.default_rng(seed)
    limits = SchedulerLimits(int(draw.integers(1, 9)), 64, 4, 60)
    prices = random_prices(draw, limits)._replace(host_step=0, host_sequence=0, host_prefill=0)
    # interpolated times are rounded down; split layers have no energies
    prices = scaled(prices, 10**6)._replace(micro_batches=1)
    rows = [
        (10**6 * int(at), int(isl), int(osl))
        for at, isl, osl in zip(
            np.sort(draw.integers(0, 4000, 40)),
            draw.integers(1, 50, 40),
            draw.integers(1, 30, 40),
            strict=True,
        )
    ]
    energy = energies(prices, 7, rank_gpus=2)
    groups = ReplicaGroup(prices, limits, number=2, energy=energy)
    outcome = simulated(rows, groups, control)
    spent_nj = 1e9 * outcome.energy.dynamic_j_F
    assert spent_nj == pytest.approx(2 * 7.0 * outcome.busy_F)
    assert 1e9 * outcome.energy.prompt_j_F == pytest.approx(2 * 7.0 * outcome.energy.prompts_F)


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_bounds_every_step_whether_steps_are_batched_or_not(seed: int) -> None:
    draw = np.random.default_rng(seed)
    prices = random_prices(draw, ROOMY)
    # energies that rise faster or slower than times
    slopes = {"decode_slope_BK": draw.integers(0, 60, prices.decode_slope_BK.shape)}
    energy = energies(prices, 9, slopes)
    rows = [(0, 20, 40), (5, 9, 60), (400, 30, 50)]
    free, batched, single = (
        simulated(rows, ReplicaGroup(prices, ROOMY, energy=one), control).energy
        for one, control in (
            (energy, Control()),
            (energy._replace(dynamic_power=8.0), Control()),
            (energy._replace(dynamic_power=8.0), Control(coalesce=False)),
        )
    )
    assert batched.dynamic_j_F == pytest.approx(single.dynamic_j_F, rel=1e-12)
    assert (batched.dynamic_j_F < free.dynamic_j_F).all()


def test_a_limit_spends_its_power_at_most() -> None:
    prices = flat_prices(10 * MS, 100 * MS)
    energy = energies(prices, 9, dynamic_power=4.0)
    outcome = simulated(
        [(0, 8, 4), (MS, 8, 6)], ReplicaGroup(prices, ROOMY, energy=energy), Control()
    )
    assert 1e9 * outcome.energy.dynamic_j_F == pytest.approx(4.0 * outcome.busy_F)


def test_the_series_integrates_to_the_energy_of_steps_and_of_idle_gpus() -> None:
    prices = flat_prices(10 * MS, 100 * MS, per_token=MS)
    energy = energies(prices, 3, on_power=0.5, rank_gpus=4)
    rows = [(at * 400 * MS, 8, 4) for at in range(20)]
    group = ReplicaGroup(prices, ROOMY, number=2, energy=energy)
    outcome = simulated(rows, group, Control(series_rows=16))
    spent = outcome.energy
    end = spent.time_W[-1]
    assert spent.energy_j_W[-1] == pytest.approx(
        spent.dynamic_j_F.sum() + 4 * 0.5e-9 * 2 * end, rel=1e-6
    )
    assert (np.diff(spent.energy_j_W) >= 4 * 0.5e-9 * 2 * np.diff(spent.time_W) * (1 - 1e-6)).all()
    assert (np.diff(spent.energy_j_W) > 0).sum() > 8


def test_a_table_of_another_shape_is_refused() -> None:
    prices = flat_prices(10, 100)
    energy = energies(prices, 1, {"head_B": np.zeros(3, np.int64)})
    with pytest.raises(InvalidSpecError, match=r"head_B of energy has shape \(3,\).*\(65,\)"):
        simulated([(0, 8, 4)], ReplicaGroup(prices, ROOMY, energy=energy), Control())
