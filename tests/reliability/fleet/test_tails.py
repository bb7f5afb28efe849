from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws import Constant
from perfatlas.reliability.fleet.model import Job, Level, Restart, Strategy, one_cause
from perfatlas.reliability.fleet.simulator import loss_probability, simulate

# every failure costs exactly 100 s of detection and nothing else; work takes 5 mean times between
# failures, so that the number of failures is Poisson(5)
STRATEGY = Strategy(interval_s=100.0, levels=(Level(write_s=0.0),), step_s=0.0)
FLEET = one_cause(1000.0, 8, detection=Constant(value_s=100.0))
JOB = Job(fleet=FLEET, units=8, horizon_s=1e5, work_s=5000.0)


@pytest.mark.parametrize("count", [12, pytest.param(18, marks=pytest.mark.study)])
def test_splitting_finds_poisson_tails(count: int) -> None:
    exact = float(stats.poisson.sf(count - 1, 5.0))
    tail = loss_probability(JOB, STRATEGY, count * 100.0 - 1.0, replicas=400, seed=3)
    assert abs(tail.probability - exact) <= 3.5 * tail.standard_error
    assert tail.standard_error < 0.4 * exact
    assert len(tail.levels_s) > 2


@pytest.mark.study
def test_nine_in_ten_intervals_hold_the_probability() -> None:
    exact = float(stats.poisson.sf(15, 5.0))  # 7e-5
    tails = [loss_probability(JOB, STRATEGY, 1599.0, replicas=50, seed=seed) for seed in range(25)]
    ends = [tail.interval(0.9) for tail in tails]
    held = sum(low <= exact <= high for low, high in ends)
    assert 19 <= held <= 25  # 22.5 of 25, less 2.3 binomial standard errors of 1.5
    assert np.median([high / low for low, high in ends]) < 4.0
    mean = float(np.mean([tail.probability for tail in tails]))
    error = float(np.std([tail.probability for tail in tails])) / math.sqrt(25)
    assert abs(mean - exact) < 3.0 * error


@pytest.mark.study
def test_a_job_that_loses_much_early_is_not_overlooked() -> None:
    # 5 d of work, M 20,000 s, a day late: 674 of 12 million plain replicas, 5.6e-5
    strategy = Strategy(
        interval_s=1800.0,
        levels=(Level(write_s=60.0),),
        restarts=(Restart(name="restart", phases={"all": 600.0}),),
    )
    days = 86400.0
    job = Job(fleet=one_cause(20_000.0, 8), units=8, horizon_s=100 * days, work_s=5 * days)
    tails = [loss_probability(job, strategy, days, replicas=100, seed=seed) for seed in range(4)]
    low, high = 5.6e-5 - 3 * 0.22e-5, 5.6e-5 + 3 * 0.22e-5
    mean = float(np.mean([tail.probability for tail in tails]))
    error = math.sqrt(sum(tail.standard_error**2 for tail in tails)) / 4
    assert low - 3 * error < mean < high + 3 * error
    assert error < 0.3 * mean


@pytest.mark.study
def test_splitting_agrees_with_plain_replicas() -> None:
    strategy = Strategy(
        interval_s=1800.0,
        levels=(Level(write_s=60.0),),
        restarts=(Restart(name="restart", phases={"all": 600.0}),),
    )
    job = Job(fleet=one_cause(6 * 3600.0, 8), units=8, horizon_s=5 * 86400.0)
    plain = simulate(job, strategy, replicas=40_000, seed=9)
    worst = float(np.quantile(plain.goodput_R, 0.002))
    loss_s = (1.0 - worst) * job.horizon_s
    share = float((plain.goodput_R <= worst).mean())
    tail = loss_probability(job, strategy, loss_s, replicas=500, seed=2)
    error = math.hypot(tail.standard_error, math.sqrt(share / 40_000))
    assert abs(tail.probability - share) <= 3 * error


def test_a_loss_beyond_the_horizon_is_refused() -> None:
    with pytest.raises(InvalidSpecError, match="loss_s"):
        loss_probability(JOB, STRATEGY, 1e6)


def test_what_cannot_happen_has_probability_zero() -> None:
    safe = replace(JOB, fleet=one_cause(1e15, 8))
    assert loss_probability(safe, STRATEGY, 1000.0, replicas=50).probability == 0.0
