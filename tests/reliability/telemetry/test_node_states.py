"""Node states, Kubernetes objects and training logs by hand, and what failures take."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fleets import evidence_document, fit_fleet, fleet_document
from perfatlas.reliability.telemetry.formats import ImportOptions, import_logs
from perfatlas.reliability.telemetry.history import ObservationWindow, joined
from tests.reliability.telemetry.clusters import cluster
from tests.reliability.telemetry.support import check_law, lines, written
from tests.reliability.telemetry.test_clusters import UTC, fitted
from tests.reliability.telemetry.test_sacct import DAY

HEADER = "NodeName|TimeStart|TimeEnd|State|Reason|User"


def test_node_states_have_a_reason_and_an_end(tmp_path: Path) -> None:
    path = written(
        tmp_path / "events.txt",
        HEADER,
        f"n1|{DAY}01:00:00|{DAY}03:00:00|DOWN*|Not responding|slurm(64)",
        f"n2|{DAY}02:00:00|Unknown|DRAIN|burn-in|root(0)",
        f"n3|{DAY}02:00:00|{DAY}02:30:00|DRAIN|Xid 79 | see ticket|root(0)",
        f"n4|{DAY}02:00:00|{DAY}02:30:00|MAINT|Not responding|root(0)",
        f"n5|{DAY}02:00:00|{DAY}02:30:00|IDLE||root(0)",
        f"|{DAY}02:00:00|{DAY}02:30:00||Cluster registered TRES|root(0)",
    )
    history = import_logs("slurm_events", [path], UTC).history
    check_law(history.files)
    assert history.cause.text() == ["not_responding", "drained", "gpu_error", "maintenance"]
    assert history.kind.text() == ["failure", "unclear", "failure", "planned"]
    assert history.action.text() == ["node_reboot", "", "node_reboot", ""]
    length_s = (history.recovered_s_E - history.start_s_E).tolist()
    assert length_s[0] == 7200.0
    assert math.isnan(length_s[1])


def test_a_node_that_is_still_down_counts_as_down(tmp_path: Path) -> None:
    path = written(
        tmp_path / "events.txt",
        HEADER,
        "n2|2026-01-01T00:00:00|Unknown|DRAIN|Xid 79|root(0)",
        "n1|2026-01-10T00:00:00|2026-01-10T02:00:00|DOWN*|Not responding|slurm(64)",
        "n3|2026-01-15T00:00:00|2026-01-15T04:00:00|DOWN*|Not responding|slurm(64)",
        "n4|2026-01-20T00:00:00|Unknown|DRAIN|burn-in|root(0)",
    )
    history, start_s = import_logs("slurm_events", [path], UTC).history, 1767225600.0
    watches = {"node": ObservationWindow(start_s, start_s + 31 * 86400.0, 16)}
    told = evidence_document(fit_fleet(history, watches, 16))["availability"]
    observed = 1.0 - (31 * 24.0 + 2.0 + 4.0) / (16 * 31 * 24.0)
    assert told["node"] == pytest.approx(observed, rel=1e-3)
    assert told["states_without_end"] == 1
    assert told["states_without_end_not_counted"] == 1


def test_kubernetes_nodes_return_and_pods_fail(tmp_path: Path) -> None:
    target = {"involvedObject": {"kind": "Node", "name": "n1"}}
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": f"{DAY}03:00:00Z"}
    pod = {"kind": "Pod", "metadata": {"name": "w0", "namespace": "ml"}, "spec": {"nodeName": "n1"}}
    pod |= {"status": {"containerStatuses": [{"lastState": {"terminated": ended}}]}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"{DAY}02:00:00Z"}
    path = lines(
        tmp_path,
        {"kind": "Event", "reason": "NodeNotReady", "firstTimestamp": f"{DAY}01:00:00Z", **target},
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [ready]}},
        pod,
        {"kind": "Event", "reason": "Pulled", "firstTimestamp": f"{DAY}01:00:00Z", **target},
    )
    history = import_logs("kubernetes", [path]).history
    check_law(history.files)
    assert history.cause.text() == ["not_ready", "out_of_memory"]
    assert history.kind.text() == ["failure", "effect"]
    assert history.recovered_s_E[0] - history.start_s_E[0] == 3600.0
    assert history.job.text() == ["", "ml/w0"]
    assert history.node.text() == ["n1", "n1"]


def pod(name: str, node: str, *containers: tuple[str, str, str, int]) -> dict[str, object]:
    """Return a pod with containers of a name, start, end ("" while it runs) and exit code."""
    states = []
    for container, start, end, code in containers:
        ran: dict[str, object] = {"startedAt": f"{DAY}{start}Z"}
        if end:
            ran |= {"exitCode": code, "reason": "Error" if code else "Completed"}
            ran |= {"finishedAt": f"{DAY}{end}Z"}
        states.append({"name": container, "state": {"terminated" if end else "running": ran}})
    status = {"containerStatuses": states}
    spec = {"nodeName": node}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec, "status": status}


def test_pods_say_when_they_ran(tmp_path: Path) -> None:
    of_pod = {"involvedObject": {"kind": "Pod", "name": "w1"}, "firstTimestamp": f"{DAY}05:00:00Z"}
    path = lines(
        tmp_path,
        {"kind": "Event", "reason": "NodeNotReady", **of_pod},
        pod("w0", "n1", ("main", "01:00:00", "03:00:00", 0), ("log", "02:00:00", "04:00:00", 0)),
        pod("w1", "n2", ("main", "04:00:00", "", 0)),
        pod("w1", "n2", ("main", "04:00:00", "05:00:00", 137)),  # a later snapshot
        pod("w2", "n2", ("main", "06:00:00", "", 0)),
    )
    history = import_logs("kubernetes", [path]).history
    check_law(history.files)
    assert sorted(history.cause.text()) == ["exit_137", "not_ready"]
    assert history.node.text() == ["n2", "n2"]
    runs = history.occupancy
    assert runs is not None
    assert runs.job.text() == ["default/w0", "default/w1", "default/w2"]
    start_s = history.start_s_E[0] - 5 * 3600.0
    assert runs.job_seconds((start_s, start_s + 7 * 3600.0)) == (3.0 + 1.0 + 1.0) * 3600.0
    late = pod("w3", "n1", ("main", "02:00:00", "01:00:00", 0))
    with pytest.raises(InvalidSpecError, match="'finishedAt': is before startedAt"):
        import_logs("kubernetes", [lines(tmp_path, late)])


def test_repairs_come_from_node_states(tmp_path: Path) -> None:
    one = cluster(5, utilization=0.5, nodes=120, mtbf_days=20.0)
    logs = [("xid", one.kernel_log(tmp_path / "k.log"))]
    logs.append(("slurm_events", one.slurm_events(tmp_path / "e.txt")))
    alone = fitted(one, import_logs(*_one(logs[0]), UTC).history)
    assert "repair" not in fleet_document(alone)
    fit = fitted(one, joined([import_logs(*_one(told), UTC).history for told in logs]))
    (cause,) = fit.causes
    assert cause.name == "gpu_xid_79"
    assert cause.rate.events == len(one.failures)
    assert cause.repair is not None
    seen = cause.repair.seen
    # exponential repairs of 0.3 days
    assert seen.exposure / seen.failures == pytest.approx(0.3 * 86400.0, rel=0.15)


def _one(told: tuple[str, Path]) -> tuple[str, list[Path]]:
    return told[0], [told[1]]


def test_a_contained_error_takes_no_node(tmp_path: Path) -> None:
    rows = [
        f"{DAY}01:00:00Z n1 kernel: NVRM: Xid (PCI:0000:61:00): {code}, x" for code in (94, 95, 79)
    ]
    path = written(
        tmp_path / "k.log", *(text.replace("n1", f"n{i}") for i, text in enumerate(rows))
    )
    history = import_logs("xid", [path], ImportOptions()).history
    assert history.action.text() == ["process", "gpu_reset", "node_reboot"]
    one = cluster(1, utilization=0.5, nodes=8, days=90.0)
    fleet = {cause["name"]: cause for cause in fleet_document(fitted(one, history))["cause"]}
    told = {name.rpartition("_")[2]: (of["takes"], of["loses"]) for name, of in fleet.items()}
    assert told["94"] == ("nothing", "process")
    assert told["95"] == ("unit", "process")
    assert told["79"] == ("unit", "unit")
