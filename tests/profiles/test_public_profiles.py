"""Public profiles, if their folder is at hand, against counts made another way."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tarfile
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from perfatlas.profiles import explain, import_profile, read_rules, with_capture
from perfatlas.quantities import InvalidSpecError
from validation.runs import shared_folder
from validation.runs.shared_data import VARIABLE

FOLDER: Final = shared_folder() / "profiles"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"no public profiles; {VARIABLE} names the folder of shared data"
)
TRACES: Final = sorted((*FOLDER.glob("hta/*.gz"), *FOLDER.glob("public/*/*.json.gz")))
FOREIGN: Final = ("_et.json", "memory_timeline", "rocprof__")
FEW_BYTES: Final = 200_000  # of a trace that every run of the tests counts
DEVICE: Final = ("kernel", "gpu_memcpy", "gpu_memset")
TABLES: Final = sorted(
    path
    for pattern in ("nvbench/*.json", "public/*/*nccl_*.log", "public/*/*ncu.log")
    for path in FOLDER.glob(pattern)
)


class Counted(NamedTuple):
    """Figures of a trace [µs]."""

    kernels: int
    kernel_us: float
    launches: int
    orphans: int
    busy_us: float
    exposed_us: float
    communication_us: float


def sweep(events: Iterable[dict[str, Any]]) -> tuple[float, float, float]:
    """Return busy, exposed and communication time by a sweep over all ends of intervals."""
    ends = []
    for one in events:
        sent = "nccl" in one["name"].lower() or "multimem" in one["name"]
        kind = 0 if sent else 1 if one["cat"] == "kernel" else 2
        ends += [(one["ts"], 1, kind), (one["ts"] + one["dur"], -1, kind)]
    running, last = [0, 0, 0], Decimal(0)
    busy = exposed = communication = Decimal(0)
    for at, step, kind in sorted(ends):
        if any(running):
            busy += at - last
        if running[0]:
            communication += at - last
            exposed += Decimal(0) if running[1] else at - last
        running[kind] += step
        last = at
    return float(busy), float(exposed), float(communication)


def counted(path: Path) -> Counted:
    with gzip.open(path) as file:
        events = [
            one
            for one in json.load(file, parse_float=Decimal)["traceEvents"]
            if one.get("ph") == "X"
        ]
    kernels = [one for one in events if one.get("cat") == "kernel"]
    calls = [one for one in events if one.get("cat") in ("cuda_runtime", "cuda_driver")]
    known = {one["args"]["correlation"] for one in calls}
    return Counted(
        len(kernels),
        float(sum(one["dur"] for one in kernels)),
        sum("Launch" in one["name"] for one in calls),
        sum(one["args"].get("correlation") not in known for one in kernels),
        *sweep(one for one in events if one.get("cat") in DEVICE),
    )


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.study] * (path.stat().st_size > FEW_BYTES))
        for path in TRACES
    ],
    ids=lambda path: path.name,
)
def test_a_trace_equals_an_independent_count(path: Path) -> None:
    if any(word in path.name for word in FOREIGN):
        with pytest.raises(InvalidSpecError):
            import_profile(path)
        return
    results, expected = explain([import_profile(path)], read_rules()), counted(path)
    assert (results["kernels"], results["launches"], results["orphans"]) == (
        *(expected.kernels, expected.launches, expected.orphans),
    )
    assert results["kernel_s"] * 1e6 == pytest.approx(expected.kernel_us, rel=1e-9)
    assert sum(row["kernels"] for row in results["classes"]) >= expected.kernels
    if not expected.kernels:
        assert "no GPU activity" in " ".join(results["integrity"])
        return
    assert sum(row["share"] for row in results["classes"]) == pytest.approx(1.0)
    assert results["busy_s"] * 1e6 == pytest.approx(expected.busy_us, rel=1e-9)
    communication_us = results["communication_s"] * 1e6
    assert communication_us == pytest.approx(expected.communication_us, rel=1e-9)
    exposed_us = results["exposed_communication_s"] * 1e6
    assert exposed_us == pytest.approx(expected.exposed_us, rel=1e-9)
    idle_s = sum(results[f"idle_{cause}_s"] for cause in ("host", "device", "unknown"))
    assert idle_s == pytest.approx(results["idle_s"], abs=1e-9)
    other = next((row["share"] for row in results["classes"] if row["class"] == "other"), 0.0)
    assert other < 0.02


@pytest.mark.parametrize("name", ["h100_2gpu_1s", "healthy_1pct", "mock"])
def test_nsight_systems_equals_an_independent_count(name: str) -> None:
    (path,) = FOLDER.glob(f"public/*/{name}.sqlite")
    results = explain([import_profile(path)], read_rules())
    base = sqlite3.connect(path)
    kernels, time_ns = base.execute(
        "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchone()
    calls, ran = (
        base.execute(query).fetchall()
        for query in (
            "SELECT correlationId, globalTid >> 24 FROM CUPTI_ACTIVITY_KIND_RUNTIME",
            "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
        )
    )
    columns = [row[1] for row in base.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
    at, known = columns.index("correlationId"), set(calls)
    if "globalPid" in columns:
        process = columns.index("globalPid")
        orphans = sum((row[at], row[process] >> 24) not in known for row in ran)
    else:
        orphans = sum(row[at] not in {one for one, _ in known} for row in ran)
    (launches,) = base.execute(
        "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON nameId = id"
        " WHERE value LIKE '%LaunchKernel%'"
    ).fetchone()
    base.close()
    assert [results[key] for key in ("kernels", "launches", "orphans")] == [
        *(kernels, launches, orphans)
    ]
    assert results["kernel_s"] == pytest.approx(time_ns * 1e-9)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_tables_of_benchmarks_have_a_case_for_each_result(path: Path) -> None:
    results = explain([import_profile(path)], read_rules())
    if path.suffix == ".json":
        states = [
            state
            for benchmark in json.loads(path.read_text())["benchmarks"]
            for state in benchmark["states"]
        ]
        expected = sum(bool(state["summaries"]) and not state["is_skipped"] for state in states)
    elif "ncu" in path.name:
        expected = path.read_text().count('"Duration"')
    else:
        lines = [line.split() for line in path.read_text().splitlines()]
        expected = sum(
            len(cells) > 10 and cells[0].isdigit() and cells[0] != "0" for cells in lines
        )
    assert results["kernels"] == expected
    assert results["classes"]


def test_the_capture_names_all_kernels_of_a_graph() -> None:
    (path,), (capture,) = (
        FOLDER.glob(f"public/*/inference__vllm_decode_full__{name}*")
        for name in ("graph_execution", "capture_traces")
    )
    profile = with_capture(import_profile(path), import_profile(capture))
    results = explain([profile], read_rules())
    assert "names the operators of 421 of 421 kernels" in " ".join(results["integrity"])
    assert results["operators"][0]["name"] == "vllm::moe_forward"


def test_two_ranks_of_a_job_are_read_together() -> None:
    names = ("timeline_analysis__sampled_rank-0", "trace_filter__sampled_rank-1")
    files = [FOLDER / "hta" / f"{name}.json.gz" for name in names]
    results = explain([import_profile(path) for path in files], read_rules())
    assert (results["devices"], results["kernels"]) == (2, 1154 + 1104)
    assert any("2 of 128 ranks" in note for note in results["integrity"])


def test_chakra_traces_equal_an_independent_count(tmp_path: Path) -> None:
    archive = next(FOLDER.glob("public/*chakra/*.tar.gz"), None)
    if archive is None:
        pytest.skip("no public Chakra traces (PERFATLAS_SHARED_DATA)")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*.json"):
        nodes = json.loads(path.read_text())["workload_graph"]
        times_us = [one["runtime"] for one in nodes if not one["is_cpu_op"] and "runtime" in one]
        results = explain([import_profile(path)], read_rules())
        assert results["kernels"] == len(times_us)
        assert results["kernel_s"] == pytest.approx(sum(times_us) * 1e-6)
