"""A fitted fleet fails as often as its log, and is repaired as its log told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.integrate import quad

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits.distributions import FAMILIES, Family
from perfatlas.reliability.telemetry.fleets import FleetOptions, fit_fleet, fleet_document
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.history import (
    Event,
    History,
    HistoryBuilder,
    ObservationWindow,
    with_service_starts,
)
from perfatlas.reliability.telemetry.reading import FileCounts
from tests.reliability.telemetry.test_sacct import DAY, log, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Draw = Callable[[np.random.Generator], float]

DAY_S = 86400.0
YEAR_S = 365.0 * DAY_S
NODES = 256
WATCH = {"host": ObservationWindow(0.0, YEAR_S, NODES)}


def history_of(rows: Iterable[tuple[str, float, float]], cause: str = "dead") -> History:
    """Return failures of nodes, each with its recovery."""
    builder, count = HistoryBuilder(), 0
    for count, (node, start_s, back_s) in enumerate(sorted(rows, key=lambda one: one[1]), 1):
        builder.add(Event(start_s, "host", cause, "failure", count, node=node, recovered_s=back_s))
    builder.end_file(FileCounts(path=cause, data_hash=cause, total=count, parsed=count))
    return builder.close()


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
