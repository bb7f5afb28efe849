"""Length, warm-up and stability of a stream of generated jobs."""

from __future__ import annotations

from io import StringIO
from typing import Any, Final

import numpy as np
import pytest
from rich.console import Console

from perfatlas.reliability.jobs.model import Cluster, Mix, generate_jobs, with_running_jobs
from perfatlas.report.pages import print_page
from perfatlas.scenario.cluster_schedules import jobs_of_fields, steady_stream
from perfatlas.verbs.schedule import fleet_schedule, schedule_page
from tests.examples import few

CLUSTER: Final[dict[str, Any]] = {"nodes": 8, "run_sigma": 0.5}


@pytest.mark.parametrize(
    ("load", "stability"), [(0.5, "stable"), (0.8, "stable"), (1.3, "overloaded")]
)
def test_the_verdict_follows_from_rates(load: float, stability: str) -> None:
    found = fleet_schedule(**CLUSTER, load=load).answer
    results = found.results
    assert results["stability"] == stability
    assert results["offered_load"] == pytest.approx(load / results["sustainable_load"], rel=1e-3)
    assert 0.9 < results["sustainable_load"] <= 1.0
    assert any("overloaded" in text for text in found.warnings) == (stability == "overloaded")


def test_an_overloaded_stream_has_no_steady_wait() -> None:
    found = fleet_schedule(**CLUSTER, load=1.1).answer
    assert found.results["stability"] == "overloaded"
    assert any("waiting and slowdown have no steady mean" in text for text in found.warnings)
    assert found.results["precision_reached"] is False
    out = StringIO()
    console = Console(file=out, width=100)
    print_page(console, schedule_page(found.to_dict(), reproduce=""))
    (row,) = [one for one in out.getvalue().splitlines() if "queue wait" in one]
    assert row.split() == ["queue", "wait", "grows", "grows", "grows"]


def test_a_stream_without_a_growing_queue_is_not_overloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A capacity that is too small is not believed where the stream itself keeps up."""
    monkeypatch.setattr(steady_stream, "_sustainable_load", lambda _: 0.3)
    monkeypatch.setattr(steady_stream, "MAX_JOBS", 10_000)
    found = fleet_schedule(**CLUSTER, load=0.5).answer
    assert found.results["stability"] == "undecided"
    assert any("does not grow" in text for text in found.warnings)
    assert not any("overloaded" in text for text in found.warnings)


def test_the_mean_wait_is_as_precise_as_said() -> None:
    one, other = (fleet_schedule(**CLUSTER, load=0.7, seed=seed).answer.results for seed in (1, 2))
    assert one["precision_reached"]
    assert other["precision_reached"]
    apart = abs(one["wait_s"]["mean"] - other["wait_s"]["mean"])
    assert apart < 3.0 * np.hypot(one["wait_s_half_width"], other["wait_s_half_width"]) / 1.645


def test_compared_streams_are_measured_over_the_same_jobs() -> None:
    found = fleet_schedule(**CLUSTER, load=0.7, compare=["backfill=easy,none"]).answer.results
    same, none = found["compared"]
    assert same["wait_s"] == found["wait_s"]
    assert same["allocated_share"] == found["allocated_share"]
    assert none["wait_s"]["mean"] > same["wait_s"]["mean"]


@pytest.mark.parametrize("nodes", [8, 100, 1500])
@pytest.mark.parametrize("load", few([0.5, 0.9], every=2))
def test_a_stable_stream_holds_its_load(
    monkeypatch: pytest.MonkeyPatch, nodes: int, load: float
) -> None:
    """Work in equals work out: a cluster that still fills is not called stable."""
    monkeypatch.setattr(steady_stream, "MAX_JOBS", 20_000)
    found = fleet_schedule(nodes=nodes, load=load).answer
    held = found.results["allocated_share"]
    assert found.results["stability"] != "stable" or held > load - 0.06


def test_a_stream_that_begins_with_no_running_job_is_undecided_where_it_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steady_stream, "MAX_JOBS", 20_000)
    monkeypatch.setattr(jobs_of_fields, "with_running_jobs", lambda generated, *_: generated)
    found = fleet_schedule(nodes=3000, load=0.9).answer
    assert found.results["stability"] == "undecided"
    assert any("too short to measure the steady state" in text for text in found.warnings)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_a_stream_begins_as_full_as_its_load(load: float) -> None:
    cluster = Cluster(nodes=500)
    mix = Mix(jobs=5000, job_rate=None, load=load, run_median_s=600, run_sigma=1.0, max_job_gpus=64)
    share = []
    for seed in range(20):
        stream = with_running_jobs(generate_jobs(mix, cluster), cluster, seed)
        gpus = np.asarray(stream.gpus_J[: stream.running])
        share.append(gpus.sum() / cluster.gpus)
        assert (np.asarray(stream.submit_J[: stream.running]) == 0).all()
    assert np.mean(share) == pytest.approx(load, rel=0.03)
