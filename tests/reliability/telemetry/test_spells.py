from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits import rank_causes
from perfatlas.reliability.telemetry.fits.distributions import WEIBULL
from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
from perfatlas.reliability.telemetry.history import (
    Event,
    History,
    HistoryBuilder,
    ObservationWindow,
    Repairs,
    failure_intervals,
    joined,
    repair_times,
)
from perfatlas.reliability.telemetry.reading import FileCounts


def history_of(
    events: Sequence[tuple[str, float, float]], cause: str = "xid_79", kind: str = "failure"
) -> History:
    """Return a history of (node, start, recovery)."""
    builder = HistoryBuilder()
    for line, (node, start_s, recovered_s) in enumerate(events, 1):
        builder.add(Event(start_s, "gpu", cause, kind, line, node=node, recovered_s=recovered_s))
    path, count = f"{cause}.log", len(events)
    builder.end_file(FileCounts(path=path, data_hash="sha256:0", total=count, parsed=count))
    return builder.close()


NAN = math.nan


def test_spells_by_hand() -> None:
    # a, new at 50: fails at 100, is up again at 110, fails at 200, stays down to the end at 300;
    # b, of unknown age: fails at 150, recovery not told; c and d never fail
    events = history_of([("a", 100.0, 110.0), ("b", 150.0, NAN), ("a", 200.0, 300.0)])
    watch = ObservationWindow(0.0, 300.0, 4, {"a": 50.0})
    intervals = failure_intervals(events, np.ones(3, bool), watch)
    seen = intervals.seen
    assert seen is not None
    rows = sorted(zip(seen.entry_L, seen.exit_L, seen.failed_L, strict=True))
    assert rows == [(0.0, 50.0, True), (0.0, 90.0, True), (0.0, 150.0, False)]
    assert intervals.failures == 3
    assert intervals.exposure_s == 50.0 + 90.0 + 150.0 + 150.0 + 2 * 300.0
    assert intervals.recovery_not_told == 1
    assert intervals.ageless == 1 + 2
    old = failure_intervals(events, np.ones(3, bool), watch, repair="as_old").seen
    assert old is not None
    assert sorted(zip(old.entry_L, old.exit_L, strict=True)) == [(0.0, 50.0), (60.0, 150.0)]


def test_first_spells_of_mixed_ages_by_hand() -> None:
    # a, of unknown age, fails at 100, is up at 110, fails at 200 and stays down; b never fails
    events = history_of([("a", 100.0, 110.0), ("a", 200.0, 300.0)])
    intervals = failure_intervals(events, np.ones(2, bool), ObservationWindow(0.0, 300.0, 2))
    assert intervals.seen is not None
    assert list(zip(intervals.seen.exit_L, intervals.seen.failed_L, strict=True)) == [(90.0, True)]
    mixed = intervals.seen.mixed
    assert mixed is not None
    assert sorted(zip(mixed.exit_L, mixed.failed_L, strict=True)) == [(100.0, True), (300.0, False)]
    # a failure of a unit not told may be one of b: its watch is no spell without a failure
    lost = history_of([("a", 100.0, 110.0), ("", 150.0, 160.0), ("a", 200.0, 300.0)])
    unplaced = failure_intervals(lost, np.ones(3, bool), ObservationWindow(0.0, 300.0, 2)).seen
    assert unplaced is not None
    assert unplaced.mixed is None
    old = failure_intervals(
        events, np.ones(2, bool), ObservationWindow(0.0, 300.0, 2), repair="as_old"
    )
    assert old.seen is None


def test_a_unit_that_is_not_told_to_be_up_may_stay_down() -> None:
    events = history_of([("a", 100.0, NAN), ("a", 150.0, NAN)])
    up = failure_intervals(events, np.ones(2, bool), ObservationWindow(0.0, 300.0, 1))
    assert (up.failures, up.exposure_s) == (2, 300.0)
    down = failure_intervals(
        events, np.ones(2, bool), ObservationWindow(0.0, 300.0, 1), open_is_down=True
    )
    assert (down.failures, down.exposure_s, down.during_repair) == (1, 100.0, 1)
    lost = history_of([("", 100.0, NAN), ("", 150.0, NAN)])
    placed = failure_intervals(lost, np.ones(2, bool), ObservationWindow(0.0, 300.0, 4, {"a": 0.0}))
    assert (placed.failures, placed.unplaced, placed.ageless) == (2, 2, 3)
    assert placed.exposure_s == 1200.0


def test_failures_during_a_repair_are_not_spells() -> None:
    events = history_of([("a", 100.0, 150.0), ("a", 120.0, 130.0), ("a", 150.0, NAN)])
    intervals = failure_intervals(events, np.ones(3, bool), ObservationWindow(0.0, 200.0, 1))
    assert (intervals.failures, intervals.during_repair) == (1, 2)


def test_a_law_comes_back_from_a_simulated_history() -> None:
    random = np.random.default_rng(7)
    rows = []
    for node in range(300):
        now = 0.0
        while (now := now + 1000.0 * random.weibull(1.8)) < 3000.0:
            rows.append((f"n{node}", now, now + 20.0))
            now += 20.0
    history = history_of(sorted(rows, key=lambda row: row[1]))
    new = {f"n{node}": 0.0 for node in range(300)}
    intervals = failure_intervals(
        history, np.ones(len(rows), bool), ObservationWindow(0.0, 3000.0, 300, new)
    )
    assert intervals.seen is not None
    fit = fit_family(WEIBULL, intervals.seen)
    assert fit.low["shape"] < 1.8 < fit.high["shape"]
    assert fit.low["scale"] < 1000.0 < fit.high["scale"]
    assert intervals.exposure_s == pytest.approx(300 * 3000.0 - 20.0 * len(rows), rel=1e-3)


def test_repairs_by_hand() -> None:
    events = history_of([("a", 0.0, 10.0), ("b", 5.0, NAN), ("c", 7.0, 7.0)])
    repairs = repair_times(events, np.ones(3, bool), 100.0)
    assert repairs.unrecorded == 2
    assert repairs.seen is not None
    assert repairs.seen.exit_L.tolist() == [10.0]
    still = repair_times(events, np.ones(3, bool), 100.0, open_is_down=True)
    assert still.seen is not None
    assert still.seen.exit_L.tolist() == [10.0, 95.0]
    assert still.seen.failed_L.tolist() == [True, False]
    assert repair_times(events, np.array([False, True, False]), 100.0) == Repairs(None, 1)


def test_causes_are_ranked_with_their_doubt() -> None:
    history = joined(
        [
            history_of([("a", float(i), i + 2.0) for i in range(30)]),
            history_of([("b", 1.0, NAN), ("c", 2.0, NAN)], cause="xid_48"),
            history_of([("b", 1.0, NAN)] * 9, cause="xid_13", kind="effect"),
        ]
    )
    first, last = rank_causes(history)
    assert (first.cause, first.events) == ("xid_79", 30)
    assert first.share == pytest.approx(30 / 32)
    assert first.share_low < first.share < first.share_high
    assert first.above_next > 0.9999
    assert (last.cause, last.events) == ("xid_48", 2)
    assert math.isnan(last.above_next)
    assert len(rank_causes(history, kinds=("failure", "effect"))) == 3
    assert history.place(1).startswith("xid_")
    with pytest.raises(InvalidSpecError, match=r"planned.*41 events"):
        rank_causes(history, kinds=("planned",))


def test_equal_causes_are_told_apart_by_nobody() -> None:
    history = joined([history_of([("a", 1.0, NAN)] * 5, cause=cause) for cause in ("x", "y")])
    assert rank_causes(history)[0].above_next == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("watch", "problem"),
    [
        (ObservationWindow(10.0, 10.0, 1), "is empty"),
        (ObservationWindow(0.0, 10.0, 0), "is empty"),
        (ObservationWindow(0.0, 50.0, 1), r"xid_79\.log:1: the event at 100 s lies outside"),
        (
            ObservationWindow(0.0, 200.0, 1, {"b": 0.0}),
            "2 units of component 'gpu' are named, but 1 observed.*--units gpu=2",
        ),
        (
            ObservationWindow(0.0, 200.0, 1, {"a": 300.0}),
            "a starts service at 300 s, after the end of the window",
        ),
        (
            ObservationWindow(0.0, 200.0, 1, {"a": 150.0}),
            "a failed at 100 s, before its service start at 150",
        ),
    ],
)
def test_wrong_watches_are_refused(watch: ObservationWindow, problem: str) -> None:
    with pytest.raises(InvalidSpecError, match=problem):
        failure_intervals(history_of([("a", 100.0, NAN)]), np.ones(1, bool), watch)
