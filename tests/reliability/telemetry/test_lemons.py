from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits import find_lemons

NODES = 1000
NAMES = [f"n{i}" for i in range(NODES)]
WATCH_S = np.full(NODES, 330 * 86400.0)
RATE = 2.0 / (330 * 86400.0)


def test_two_rates_by_hand() -> None:
    # one node of twenty with 40 failures among nodes with 1 each: the mixture is 39 nodes' rate 1/T
    events = np.array([40, *[1] * 39])
    lemons = find_lemons([f"n{i}" for i in range(40)], events, np.full(40, 100.0))
    assert lemons.mixture == "two_rates"
    assert lemons.names == ("n0",)
    assert lemons.others_per_s == pytest.approx(0.01, rel=1e-6)
    assert lemons.lemon_per_s == pytest.approx(0.4, rel=1e-6)
    assert lemons.lemon_share == pytest.approx(1.0 / 40.0, rel=1e-6)
    assert lemons.probability_U[0] == pytest.approx(1.0)
    assert lemons.rate_per_s_U[0] == pytest.approx(0.4, rel=1e-3)


def test_a_fleet_of_one_rate_has_no_lemons() -> None:
    flagged = 0
    for seed in range(5):
        events = np.random.default_rng(seed).poisson(RATE * WATCH_S)
        flagged += find_lemons(NAMES, events, WATCH_S).flagged
    assert flagged == 0


def test_lemons_are_found_and_false_ones_stay_within_the_bound() -> None:
    truth = np.arange(NODES) < 20
    false, found, flagged = 0, 0, 0
    for seed in range(8):
        random = np.random.default_rng(seed)
        events = random.poisson(np.where(truth, 8.0, 1.0) * RATE * WATCH_S)
        lemons = find_lemons(NAMES, events, WATCH_S, false_discovery=0.05)
        rows = np.array([int(name[1:]) for name in lemons.names])
        false += int(np.count_nonzero(~truth[rows]))
        found += int(np.count_nonzero(truth[rows]))
        flagged += rows.size
    assert found >= 0.95 * 8 * 20
    assert false <= 0.08 * flagged  # 160 flagged: 5% and two standard errors


def test_a_broad_fleet_is_not_full_of_lemons() -> None:
    false, flagged = 0, 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        rates = RATE * random.gamma(2.0, 0.5, NODES)
        lemons = find_lemons(NAMES, random.poisson(rates * WATCH_S), WATCH_S)
        rows = np.array([int(name[1:]) for name in lemons.names], np.int64)
        false += int(np.count_nonzero(rates[rows] <= 3.0 * np.median(rates)))
        flagged += rows.size
    assert flagged < 0.05 * 4 * NODES
    assert false <= max(2, 0.1 * flagged)


def test_a_short_watch_is_not_a_lemon() -> None:
    # one failure in a day is no evidence beside a fleet with two failures a year
    watch = WATCH_S.copy()
    events = np.random.default_rng(5).poisson(RATE * watch)
    watch[0], events[0] = 86400.0, 1
    lemons = find_lemons(NAMES, events, watch)
    assert "n0" not in lemons.names


@pytest.mark.parametrize(
    ("events", "exposure", "options", "problem"),
    [
        ([1, 2], [1.0], {}, "expected equal lengths of at least 2"),
        ([1, -2], [1.0, 1.0], {}, "unit 'b' has -2 failures"),
        ([1, 2], [0.0, 1.0], {}, "unit 'a' has 1 failure in 0 s"),
        ([0, 0], [1.0, 1.0], {}, "no failures"),
        ([1, 0], [1.0, 1.0], {"ratio": 1.0}, "ratio = 1"),
        ([1, 0], [1.0, 1.0], {"false_discovery": 0.0}, "false_discovery = 0"),
    ],
)
def test_wrong_counts_are_refused(
    events: list[int], exposure: list[float], options: dict[str, float], problem: str
) -> None:
    with pytest.raises(InvalidSpecError, match=problem):
        find_lemons(["a", "b"], np.array(events), np.array(exposure), **options)
