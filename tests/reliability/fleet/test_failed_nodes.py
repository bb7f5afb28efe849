"""Nodes that leave together: the chain beside hand-worked steady states and the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import birth_death_blocked, failed_nodes
from perfatlas.reliability.fleet.closed_form.spares import erlang_b
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.simulator import simulate

DAY = 86400.0


def solved(rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    """Return the steady state of a chain from its rates, by its balance equations."""
    generator = rates - np.diag(rates.sum(axis=1))
    balance = np.vstack([generator.T, np.ones(len(rates))])
    return list(np.linalg.lstsq(balance, np.eye(len(rates) + 1)[-1], rcond=None)[0])


def test_batches_by_their_balance_equations() -> None:
    # 5 nodes, 1 spare; one leaves at 0.1 a node, three together at 0.02; repair 2, two crews
    rates = np.zeros((5, 5))
    for out, size, rate in ((0, 1, 0.5), (0, 3, 0.1), (1, 1, 0.5), (1, 3, 0.1)):
        rates[out, out + size] += rate
    for out in range(1, 5):
        rates[out, out - 1] = min(out, 2) / 2.0
    found_J = failed_nodes(5, 1, {1: 0.1, 3: 0.02}, 2.0, crews=2)
    assert found_J.tolist() == pytest.approx(solved(rates))
    # warm: the spare fails too, and may be the first of three
    rates[0, 1] += 0.1
    rates[0, 3] += 0.02
    assert failed_nodes(5, 1, {1: 0.1, 3: 0.02}, 2.0, crews=2, warm=True).tolist() == pytest.approx(
        solved(rates)
    )


def test_batches_of_one_are_erlang_b_and_many_small_ones_do_not_overflow() -> None:
    assert failed_nodes(100, 3, {1: 0.02}, 1.0)[4] == pytest.approx(float(erlang_b(4, 2.0)))
    together = failed_nodes(100_000, 3000, {1: 0.02, 4: 1e-9}, 1.0)
    alone = failed_nodes(100_000, 3000, {1: 0.02}, 1.0)
    assert np.isfinite(together).all()
    assert together @ np.arange(together.size) == pytest.approx(2000.0, rel=1e-3)
    assert alone @ np.arange(alone.size) == pytest.approx(2000.0, rel=1e-3)
    assert birth_death_blocked(100, 3, 0.0, 1.0) == 0.0


@pytest.mark.parametrize("kind", ["cold", "warm"])
def test_racks_behind_a_power_unit_wait_as_simulated(kind: str) -> None:
    pdu = model.Cause(name="pdu", lifetime=Exponential(mean_s=100 * DAY), per_unit=0.05, units=20)
    stage = model.RepairStage(name="fix", lasts=Exponential(mean_s=DAY))
    fleet = model.Fleet(
        units=230, causes=(pdu,), repairs=(model.Repair(name="fix", stages=(stage,)),)
    )
    strategy = model.Strategy(
        interval_s=DAY,
        levels=(model.Level(write_s=0.0),),
        spares=model.Spares(count=30 if kind == "warm" else 6, kind=kind),  # type: ignore[arg-type]
    )
    count = strategy.spares.count or 0
    outcome = simulate(
        model.Job(fleet=fleet, units=200, horizon_s=20_000 * DAY), strategy, replicas=100
    )
    share_R = outcome.column("waiting_for_spares") / outcome.horizon
    found_J = failed_nodes(200, count, {20: 0.05 / (100 * DAY)}, DAY, warm=kind == "warm")
    exact = float(found_J[count + 1 :].sum())
    assert abs(share_R.mean() - exact) < 3.5 * share_R.std(ddof=1) / 10.0
    assert share_R.std(ddof=1) / 10.0 < 0.05 * exact
    if kind == "cold":
        assert exact == pytest.approx(0.105, abs=5e-4)  # one by one it were 0.3%
