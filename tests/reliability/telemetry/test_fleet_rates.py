"""A fitted fleet fails as often as its log, and is repaired as its log told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.integrate import quad

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.model import cause_rate_per_s
from perfatlas.reliability.fleet.model.fleet_file import fleet_of
from perfatlas.reliability.telemetry.fits.distributions import FAMILIES, Family
from perfatlas.reliability.telemetry.fleets import (
    FleetOptions,
    evidence_document,
    fit_fleet,
    fleet_document,
)
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.history import (
    Event,
    History,
    HistoryBuilder,
    ObservationWindow,
    joined,
    with_service_starts,
)
from perfatlas.reliability.telemetry.reading import Tally
from tests.reliability.telemetry.test_sacct import DAY, log, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from perfatlas.reliability.telemetry.fleets import FleetFit
    from perfatlas.reliability.telemetry.fleets.records import CauseFit

    Draw = Callable[[np.random.Generator], float]

DAY_S = 86400.0
YEAR_S = 365.0 * DAY_S
NODES = 256
WATCH = {"host": ObservationWindow(0.0, YEAR_S, NODES)}
# each of a known mean, their shapes far apart
TRUTHS: dict[str, tuple[Draw, str, float]] = {
    "weibull_0.7": (
        lambda random: 500.0 * DAY_S * random.weibull(0.7) / math.gamma(1.0 + 1.0 / 0.7),
        "shape",
        0.7,
    ),
    "weibull_1.7": (
        lambda random: 200.0 * DAY_S * random.weibull(1.7) / math.gamma(1.0 + 1.0 / 1.7),
        "shape",
        1.7,
    ),
    "lognormal_1": (lambda random: 300.0 * DAY_S * random.lognormal(-0.5, 1.0), "sigma", 1.0),
}


def history_of(rows: Iterable[tuple[str, float, float]], cause: str = "dead") -> History:
    """Return failures of nodes, each with its recovery."""
    builder, count = HistoryBuilder(), 0
    for count, (node, start_s, back_s) in enumerate(sorted(rows, key=lambda one: one[1]), 1):
        builder.add(Event(start_s, "host", cause, "failure", count, node=node, recovered_s=back_s))
    tally = Tally(path=f"{cause}.log", unit="lines", parsed=count)
    builder.end_file(tally.close(total=count, data_hash=f"sha256:{cause}"))
    return builder.close()


def long_in_use(draw: Draw, seed: int) -> History:
    """Return a year of a fleet that has run for ten: its nodes are of mixed ages."""
    random, rows = np.random.default_rng(seed), []
    for node in range(NODES):
        now = -10.0 * YEAR_S + draw(random)
        while now < YEAR_S:
            back_s = now + 3600.0
            if now >= 0.0:
                rows.append((f"n{node}", now, min(back_s, YEAR_S)))
            now = back_s + draw(random)
    return history_of(rows)


def expected_failures(fit: FleetFit, watched_s: float) -> float:
    """Return how many failures the simulated fleet has in such a time."""
    fleet = fleet_of(fleet_document(fit), "fitted")
    return sum(cause_rate_per_s(cause, fit.nodes) for cause in fleet.causes) * watched_s


@pytest.mark.study
@pytest.mark.parametrize(
    "truth",
    [pytest.param(name, marks=[pytest.mark.study] * (name != "weibull_1.7")) for name in TRUTHS],
)
def test_a_law_with_a_shape_fails_as_often_as_the_log(truth: str) -> None:
    draw, name, value = TRUTHS[truth]
    covered, shaped, seeds = 0, 0, 5
    for seed in range(seeds):
        fit = fit_fleet(long_in_use(draw, seed), WATCH, NODES)
        (cause,) = fit.causes
        up_s = cause.intervals.exposure_s / NODES
        assert expected_failures(fit, up_s) == pytest.approx(cause.intervals.failures, rel=1e-6)
        assert cause.comparison is not None
        own = cause.comparison.fit(truth.partition("_")[0])
        covered += own.low[name] < value < own.high[name]
        # by itself, too, the distribution is near the rate: nothing is left to the tail nobody saw
        assert 1.0 / own.mean == pytest.approx(cause.rate.observed_per_s, rel=0.25)
        shaped += cause.law is not None
        assert cause.law is None or cause.law.mean * cause.rate.observed_per_s == pytest.approx(1.0)
    assert covered >= seeds - 1
    assert shaped >= seeds // 2


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_rest_of_mixed_ages_is_the_integral_of_survival(family: Family) -> None:
    inside_P = {"exponential": [-1.0], "weibull": [-0.4, 1.0], "lognormal": [0.5, -0.2]}
    at_P = np.array(inside_P[family.name])

    def lives(time: float) -> float:
        return math.exp(-float(family.hazard_integral(np.array([time]), at_P)[0]))

    for time in (0.1, 1.0, 7.0):
        begun = quad(lives, 0.0, time)[0]
        expected = 1.0 - begun / family.mean(at_P)
        found = math.exp(float(family.log_rest(np.array([time]), at_P)[0]))
        assert found == pytest.approx(expected, rel=1e-6)


def test_an_exponential_law_of_mixed_ages_is_failures_over_time() -> None:
    # memoryless, so an age does not matter: 12 failures of one unit in 120 s of the 240 s watched
    rows = [("a", 10.0 * i + 5.0 + 0.01 * (i % 3), math.nan) for i in range(12)]
    fit = fit_fleet(history_of(rows), {"host": ObservationWindow(0.0, 120.0, 2)}, 2)
    (cause,) = fit.causes
    assert cause.comparison is not None
    assert cause.comparison.fit("exponential").parameters["rate"] == pytest.approx(12 / 240.0)


def cause_of(fit: FleetFit, name: str) -> CauseFit:
    return next(cause for cause in fit.causes if cause.cause == name)


def test_units_of_a_told_age_keep_their_law(tmp_path: Path) -> None:
    """A young fleet that wears out: its distribution, of its ages, is not scaled to its few
    failures.
    """
    random, rows = np.random.default_rng(2), []
    for node in range(NODES):
        fails_s = 600.0 * DAY_S * random.weibull(3.0)
        if fails_s < YEAR_S:
            rows.append((f"n{node}", fails_s, math.nan))
    table = tmp_path / "service.csv"
    lines = [f"host,n{node},1970-01-01T00:00:00Z" for node in range(NODES)]
    table.write_text("\n".join(["component,node,start", *lines]) + "\n", "utf-8")
    watches = with_service_starts(WATCH, table)
    fit = fit_fleet(history_of(rows), watches, NODES, FleetOptions(repair="as_old"))
    (cause,) = fit.causes
    assert cause.law is not None
    assert cause.law.low["shape"] < 3.0 < cause.law.high["shape"]
    written = fleet_document(fit)["cause"][0]
    assert (written["as_old"], written["age"]) == (True, f"{int(YEAR_S)} s")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["component,node", "host,n1"], "no column 'start'"),
        (
            ["component,node,start", "nic,n1,2026-01-01T00:00:00Z"],
            r"\(nic\) is among the observed ones: host",
        ),
        (["component,node,start", "host,,2026-01-01T00:00:00Z"], "row 1, column 'node': is empty"),
        (["component,node,start", "host,n1,soon"], "row 1, column 'start'"),
        (
            ["component,node,start", *["host,n1,1970-01-01T00:00:00Z"] * 2],
            "row 2: host n1 has two rows",
        ),
    ],
)
def test_wrong_begins_of_service_are_refused(tmp_path: Path, rows: list[str], problem: str) -> None:
    table = tmp_path / "service.csv"
    table.write_text("\n".join(rows) + "\n", "utf-8")
    with pytest.raises(InvalidSpecError, match=problem):
        with_service_starts(WATCH, table)


def test_a_device_of_a_node_has_its_own_begin_of_service(tmp_path: Path) -> None:
    table = tmp_path / "service.csv"
    table.write_text("component,node,device,start\ngpu,n1,3,1970-01-02T00:00:00Z\n", "utf-8")
    watches = with_service_starts({"gpu": ObservationWindow(0.0, YEAR_S, 8)}, table)
    assert watches["gpu"].new_s == {"n1/3": DAY_S}


def test_the_wait_of_a_job_is_no_repair_of_a_node(tmp_path: Path) -> None:
    """Node n1 fails twice in an hour, other jobs between; job 7 waits ten days in the queue."""
    runs = read_sacct(
        [
            log(
                tmp_path,
                row("7", "NODE_FAIL", f"{DAY}01:00:00", f"{DAY}02:00:00"),
                row("8", "NODE_FAIL", f"{DAY}02:10:00", f"{DAY}03:00:00"),
                row("7", "COMPLETED", "2026-03-12T01:00:00", "2026-03-12T02:00:00"),
            )
        ],
        zone="UTC",
    )
    history = run_failures(runs)
    assert np.isnan(history.recovered_s_E).all()
    start_s = 1772323200.0  # 2026-03-01T00:00:00Z
    fit = fit_fleet(history, {"host": ObservationWindow(start_s, start_s + 30 * DAY_S, 4)}, 4)
    (cause,) = fit.causes
    assert (cause.intervals.failures, cause.intervals.during_repair) == (2, 0)
    assert "repair" not in fleet_document(fit)


def test_a_repair_that_no_log_tells_is_said_to_be_that_of_others() -> None:
    told = history_of([(f"n{i}", 1e5 * (i + 1), 1e5 * (i + 1) + 3600.0) for i in range(12)])
    silent = history_of([("n20", 5e5, math.nan)], "silent")
    fit = fit_fleet(joined([told, silent]), WATCH, NODES)
    fleet, evidence = fleet_document(fit), evidence_document(fit)
    rows = {one["name"]: one for one in evidence["cause"]}
    assert rows["host_dead"]["repair_taken"] == "host_dead"
    assert rows["host_silent"]["repair_taken"] == "observed"
    assert (
        "1 failure without a recorded repair time: the fleet assumes those of all causes"
        in (rows["host_silent"]["remarks"])
    )
    causes = {cause["name"]: cause for cause in fleet["cause"]}
    assert "repair" not in causes["host_silent"]  # so the first of them, "observed"
    assert fleet["repair"][0]["name"] == "observed"
    # equal repairs are a constant, not an exponential distribution of their mean
    for repair in fleet["repair"]:
        assert repair["stages"][0]["lasts"] == {"law": "constant", "value": "3600 s"}
    assert cause_of(fit, "silent").repair is None
