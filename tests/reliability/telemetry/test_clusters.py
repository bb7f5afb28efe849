"""Fitted failure rates against synthetic clusters whose rates are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.reliability.telemetry.fleets import FleetFit, fit_fleet
from perfatlas.reliability.telemetry.formats import ImportOptions, import_logs
from perfatlas.reliability.telemetry.history import (
    History,
    joined,
    observation_windows,
    read_history,
    write_history,
)
from perfatlas.reliability.telemetry.reading import LogClock
from tests.reliability.telemetry.clusters import DAY_S, START_S, Cluster, cluster

UTC = ImportOptions(clock=LogClock(zone="UTC"))


def fitted(one: Cluster, history: History) -> FleetFit:
    window_s = (START_S, one.end_s)
    windows = observation_windows(
        history, nodes=one.nodes, gpus_per_node=8, window_s=window_s, units={"gpu": one.nodes}
    )
    return fit_fleet(history, windows, one.nodes)


def test_failures_of_accounting_are_divided_by_the_time_under_jobs(tmp_path: Path) -> None:
    one = cluster(3, utilization=0.18, nodes=120, mtbf_days=20.0)
    history = import_logs("sacct", [one.sacct(tmp_path / "s.txt")], UTC).history
    table = tmp_path / "h.parquet"
    write_history(table, history)
    (cause,) = fitted(one, read_history(table)).causes
    busy_s = sum(end_s - start_s for start_s, end_s, _, _ in one.jobs)
    failed = sum(failed for *_, failed in one.jobs)
    assert cause.rate.events == failed
    assert cause.rate.exposure_s == pytest.approx(busy_s, rel=1e-4)
    assert 1.0 / cause.rate.high_per_s < 20.0 * DAY_S < 1.0 / cause.rate.low_per_s
    # over all node-hours the same failures would look five times as rare
    assert one.nodes * one.days * DAY_S / failed > 4.0 / cause.rate.observed_per_s


@pytest.mark.study
def test_two_logs_count_each_failure_once(tmp_path: Path) -> None:
    one = cluster(5, utilization=0.5, nodes=120, mtbf_days=20.0)
    jobs = import_logs("sacct", [one.sacct(tmp_path / "s.txt")], UTC).history
    errors = import_logs("xid", [one.kernel_log(tmp_path / "kern.log")], UTC).history
    fit = fitted(one, joined([jobs, errors]))
    (cause,) = fit.causes
    assert cause.name == "gpu_xid_79"
    assert cause.rate.events == len(one.failures)
    busy = sum(was_busy for *_, was_busy, _ in one.failures)
    assert fit.agreement is not None
    assert fit.agreement.counts() == {
        "job_ends_explained": busy,
        "device_failures_on_idle_nodes": len(one.failures) - busy,
    }
    assert fit.utilization == pytest.approx(0.5, abs=0.03)
    assert 1.0 / cause.rate.high_per_s < 20.0 * DAY_S < 1.0 / cause.rate.low_per_s
