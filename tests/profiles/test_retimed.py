"""Profiles re-timed on other systems: laws, and timelines worked by hand."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.profiles import explain, import_profile, on_system, read_rules
from perfatlas.profiles.events import Profile
from perfatlas.profiles.timeline import Replay
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.kernel import kernel_gemm
from tests.profiles.samples import MM, NCU, event, launch, nsys_database, trace, written

EXAMPLE = "examples/profiles/h100_two_layers.json.gz"


def retimed(path: str | Path, system: str) -> dict[str, Any]:
    profiles, rules = [import_profile(path)], read_rules()
    return on_system(profiles, rules, explain(profiles, rules), system)


def wait(name: str, start_us: float, time_us: float) -> dict[str, Any]:
    return event("cuda_runtime", name, start_us, time_us, correlation=900)


def kernel(start_us: float, time_us: float, correlation: int, stream: int = 7) -> dict[str, Any]:
    return event("kernel", "k", start_us, time_us, correlation=correlation, stream=stream)


def imported(tmp_path: Path, *events: dict[str, Any]) -> Profile:
    return import_profile(written(tmp_path / "t.json", {"traceEvents": list(events)}))


def starts(profile: Profile, *factors: float) -> list[float]:
    """Return the starts after the first activity, with other durations [µs]."""
    time_s_N = profile.activities.time_s_N * np.array(factors)
    replayed = Replay(profile).run(time_s_N).profile.activities.start_s_N
    return [round(float(at) * 1e6, 3) for at in replayed - replayed[0]]


@pytest.mark.parametrize("path", [EXAMPLE, "examples/profiles/mi300_two_layers.json.gz"])
def test_the_same_system_gives_the_recorded_times(path: str) -> None:
    profiles, rules = [import_profile(path)], read_rules()
    results = explain(profiles, rules)
    on = on_system(profiles, rules, results, results["system"])
    same = ("wall_s", "busy_s", "idle_s", "idle_host_s", "idle_device_s", "communication_s")
    assert [on[name] for name in same] == pytest.approx([results[name] for name in same], abs=1e-15)
    assert (on["speedup"], on["wall_s_low"], on["wall_s_high"]) == pytest.approx(
        (1.0, results["wall_s"], results["wall_s"])
    )
    assert all(row["change_s"] == pytest.approx(0.0, abs=1e-18) for row in on["operators"])
    assert sum(on[f"{of}_share"] for of in ("operator", "class", "kept")) == pytest.approx(1.0)
    assert sum(row["share"] for row in on["critical_path"]) == pytest.approx(1.0)


def test_layers_measured_on_two_machines_are_inside_both_intervals() -> None:
    """The same two layers of Qwen1.5-0.5B, recorded on an H100 and on an MI300X."""
    paths = {name: f"examples/profiles/{name}_two_layers.json.gz" for name in ("h100", "mi300")}
    measured_s = {
        name: explain([import_profile(path)], read_rules())["wall_s"]
        for name, path in paths.items()
    }
    for one, other, system in (("h100", "mi300", "mi300x"), ("mi300", "h100", "h100_sxm")):
        on = retimed(paths[one], system)
        assert on["wall_s_low"] <= measured_s[other] <= on["wall_s_high"]
    on = retimed(paths["h100"], "mi300x")
    assert on["wall_s"] == pytest.approx(measured_s["mi300"], rel=0.12)


@settings(max_examples=5, deadline=None)
@given(st.floats(3.35, 20.0), st.floats(1.0, 3.0))
def test_faster_memory_is_never_slower(terabytes: float, factor: float) -> None:
    slow, fast = (
        retimed(EXAMPLE, f"h100_sxm{{device.memory.bandwidth={one}TB/s}}")
        for one in (terabytes, terabytes * factor)
    )
    for end in ("wall_s", "wall_s_low", "wall_s_high"):
        assert fast[end] <= slow[end] * (1.0 + 1e-12)


def test_an_operator_has_the_ratio_of_its_prices(tmp_path: Path) -> None:
    on = retimed(written(tmp_path / "t.json", trace()), "h200_sxm{device.memory.bandwidth=9TB/s}")
    rows = {row["name"]: row for row in on["operators"] if row["class"] != "copy"}
    systems = ("h100_sxm", "h200_sxm{device.memory.bandwidth=9TB/s}")
    old, new = (
        kernel_gemm(system=one, m=64, n=256, k=128, format="bf16").results for one in systems
    )
    ratio = new["time_s"] / old["time_s"]
    assert rows["aten::mm"]["time_s"] == pytest.approx(40e-6 * ratio)
    # nothing is known of the unclassified kernel, 10 of 110 µs; the copy goes over the same link
    assert rows["my_kernel"]["time_s"] == pytest.approx(10e-6)
    assert on["kept_share"] == pytest.approx(10.0 / 110.0)
    classes = {row["class"]: row for row in on["classes"]}
    assert classes["copy"]["time_s"] == pytest.approx(classes["copy"]["against_time_s"])
    assert set(classes) == {"gemm", "communication", "elementwise", "copy", "other"}


def test_the_interval_has_the_errors_of_both_prices(tmp_path: Path) -> None:
    """One kernel: independent errors add in quadrature, those of one device cancel."""
    events = [event("cpu_op", "aten::mm", 0.0, 10.0, **MM), launch("cudaLaunchKernel", 1.0, 1)]
    events.append(event("kernel", "gemm", 8.0, 40.0, correlation=1))
    content = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": events}
    path = written(tmp_path / "t.json", content)
    old, new = (
        kernel_gemm(system=one, m=64, n=256, k=128, format="bf16").results
        for one in ("h100_sxm", "gb300")
    )
    on, ratio = retimed(path, "gb300"), new["time_s"] / old["time_s"]
    up = np.hypot(
        np.log(new["time_s_high"] / new["time_s"]), np.log(old["time_s"] / old["time_s_low"])
    )
    assert on["wall_s"] == pytest.approx(40e-6 * ratio)
    assert on["wall_s_high"] == pytest.approx(40e-6 * ratio * np.exp(up))
    variant = retimed(path, "h100_sxm{device.memory.bandwidth=3.36TB/s}")
    widths = [one["wall_s_high"] / one["wall_s_low"] for one in (variant, on)]
    assert 1.0 <= widths[0] < 1.2 < widths[1]


def test_lower_limits_have_no_interval() -> None:
    """A TPU answers lower limits: the ratio is that of limits of both machines."""
    on = retimed(EXAMPLE, "cpu")
    assert (on["wall_s_low"], on["wall_s_high"]) == (None, None)
    assert 0.0 < on["busy_s"] < on["wall_s"]


def test_a_host_that_is_late_stays_late(tmp_path: Path) -> None:
    """A launch each 100 µs: a machine as fast as one likes gains the last kernel alone."""
    calls = [
        one
        for step in range(20)
        for one in (
            event("cpu_op", "aten::mm", 100.0 * step, 10.0, **MM),
            launch("cudaLaunchKernel", 100.0 * step + 1.0, step),
            event("kernel", "gemm", 100.0 * step + 7.0, 20.0, correlation=step, stream=7),
        )
    ]
    content = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": calls}
    path = written(tmp_path / "late.json", content)
    twice = "device.memory.bandwidth=6.7TB/s, device.peak.bf16=1900TFLOP/s"
    on = retimed(path, f"h100_sxm{{{twice}}}")
    assert on["critical_path"][0]["part"] == "host"
    assert 1900e-6 <= on["wall_s"] <= 1920e-6
    assert on["busy_s"] < 20 * 20e-6


def test_streams_launches_and_waits_are_kept(tmp_path: Path) -> None:
    """Two kernels in a queue, a synchronization, and a third one launched after it."""
    profile = imported(
        tmp_path,
        launch("cudaLaunchKernel", 0.0, 1),
        launch("cudaLaunchKernel", 5.0, 2),
        wait("cudaStreamSynchronize", 10.0, 102.0),
        launch("cudaLaunchKernel", 120.0, 3),
        kernel(6.0, 50.0, 1),
        kernel(58.0, 50.0, 2),
        kernel(126.0, 10.0, 3),
    )
    assert starts(profile, 1.0, 1.0, 1.0) == [0.0, 52.0, 120.0]
    # 2 µs of gap in the queue; the call returns 4 µs after the second one, as it did
    assert starts(profile, 2.0, 1.0, 1.0) == [0.0, 102.0, 170.0]
    # faster kernels: the second one still comes 6 µs after its launch, 5 µs after the first
    assert starts(profile, 0.02, 1.0, 1.0) == [0.0, 5.0, 73.0]
    # the second one ends 2 µs after the call began, which returns 4 µs later, at 16 µs
    assert starts(profile, 0.02, 0.02, 1.0) == [0.0, 5.0, 24.0]


def test_a_copy_that_the_host_waits_for_delays_it(tmp_path: Path) -> None:
    blocking = event("cuda_runtime", "cudaMemcpyAsync", 0.0, 60.0, correlation=1)
    returned = event("cuda_runtime", "cudaMemcpyAsync", 0.0, 3.0, correlation=1)
    rest = (
        launch("cudaLaunchKernel", 70.0, 2),
        event("gpu_memcpy", "Memcpy DtoH", 5.0, 50.0, correlation=1, stream=7),
        kernel(76.0, 10.0, 2),
    )
    assert starts(imported(tmp_path, blocking, *rest), 2.0, 1.0) == [0.0, 121.0]
    assert starts(imported(tmp_path, returned, *rest), 1.2, 1.0) == [0.0, 71.0]


def test_an_event_of_another_stream_is_waited_for(tmp_path: Path) -> None:
    """Launched at 2 µs into an empty stream, started when the kernel of the first one ended."""
    profile = imported(
        tmp_path,
        launch("cudaLaunchKernel", 0.0, 1),
        launch("cudaLaunchKernel", 2.0, 2),
        kernel(6.0, 50.0, 1),
        kernel(58.0, 10.0, 2, stream=9),
    )
    assert starts(profile, 2.0, 1.0) == [0.0, 102.0]
    assert starts(profile, 0.5, 1.0) == [0.0, 27.0]


def test_a_full_queue_of_launches_blocks_the_host(tmp_path: Path) -> None:
    """A kernel each 100 µs, a call each 2 µs: from the 600th on the host waits for the device."""
    calls, kernels, queued = [], [], 600
    for step in range(800):
        room_us = 100.0 * (step - queued) + 8.0  # one has begun
        start_us = 2.0 * step if step < queued else max(room_us - 97.0, 2.0 * step)
        call = launch("cudaLaunchKernel", start_us, step)
        calls.append(call | ({"dur": room_us + 1.0 - start_us} if room_us > start_us else {}))
        kernels.append(kernel(100.0 * step + 6.0, 100.0, step))
    profile = imported(tmp_path, *calls, *kernels)
    assert starts(profile, *[1.0] * 800)[-1] == pytest.approx(79_900.0)
    # a tenth of the durations: the host no longer holds the device back
    assert starts(profile, *[0.1] * 800)[-1] < 10_000.0


def test_processes_and_graphs_of_nsight_systems(tmp_path: Path) -> None:
    path = nsys_database(tmp_path / "p.sqlite")
    results = explain([import_profile(path)], read_rules())
    assert retimed(path, "h200_sxm")["wall_s"] == pytest.approx(results["wall_s"], rel=1e-12)


def test_what_cannot_be_retimed_is_refused(tmp_path: Path) -> None:
    unknown = trace() | {"deviceProperties": [{"id": 0, "name": "GPU of tomorrow"}]}
    path = written(tmp_path / "t.json", unknown)
    with pytest.raises(InvalidSpecError, match="'GPU of tomorrow'"):
        retimed(path, "h100_sxm")
    (tmp_path / "p.csv").write_text(NCU)
    idle = {**trace(), "traceEvents": [launch("cudaLaunchKernel", 0.0, 1)]}
    with pytest.raises(InvalidSpecError, match="timeline"):
        retimed(written(tmp_path / "idle.json", idle), "h100_sxm")
    with pytest.raises(InvalidSpecError, match="names no device: set --system"):
        retimed(tmp_path / "p.csv", "h100_sxm")
    with pytest.raises(InvalidSpecError, match="h100"):
        retimed(written(tmp_path / "k.json", trace()), "h100_smx")


def test_kernels_without_duration_are_retimed(tmp_path: Path) -> None:
    """Clocks of microseconds: nothing has a duration, and nothing is divided by it."""
    events = [launch("cudaLaunchKernel", 0.0, 1), kernel(6.0, 0.0, 1)]
    named = [{"id": 0, "name": "NVIDIA H100"}]
    content = {"deviceProperties": named, "traceEvents": events}
    on = retimed(written(tmp_path / "t.json", content), "gb300")
    assert (on["wall_s"], on["speedup"], on["kept_share"]) == (0.0, None, 0.0)


def test_damaged_times_give_a_timeline_too(tmp_path: Path) -> None:
    """Clocks that differ: a kernel begins before its launch, a wait ends before it."""
    content = copy.deepcopy(trace())
    content["traceEvents"] += [
        wait("cudaDeviceSynchronize", 205.0, 0.0),
        launch("cudaLaunchKernel", 400.0, 9),
        kernel(300.0, 500.0, 9, stream=3),
    ]
    path = written(tmp_path / "t.json", content)
    results = explain([import_profile(path)], read_rules())
    assert retimed(path, "h100_sxm")["wall_s"] == pytest.approx(results["wall_s"], rel=1e-12)


def synchronized(name: str, correlation: int, **args: int) -> dict[str, Any]:
    """Return a record of synchronization of device 0."""
    return event("cuda_sync", name, 20.0, 1.0, correlation=correlation, device=0, **args)


def test_recorded_waits_hold_where_the_trace_hides_them(tmp_path: Path) -> None:
    # stream 8 waits for an event of stream 7, which had happened when its kernel was launched
    events = [
        launch("cudaLaunchKernel", 0.0, 1),
        launch("cudaEventRecord", 4.0, 2),
        launch("cudaStreamWaitEvent", 8.0, 3),
        launch("cudaLaunchKernel", 58.0, 4),
        kernel(0.0, 50.0, 1),
        kernel(60.0, 10.0, 4, stream=8),
    ]
    recorded = synchronized(
        "Stream Wait Event", 3, stream=8, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2
    )
    assert starts(imported(tmp_path, *events), 2.0, 1.0) == [0.0, 60.0]
    assert starts(imported(tmp_path, *events, recorded), 2.0, 1.0) == [0.0, 100.0]
    assert starts(imported(tmp_path, *events, recorded), 1.0, 1.0) == [0.0, 60.0]


def test_a_recorded_wait_of_the_host_is_for_its_stream(tmp_path: Path) -> None:
    # the kernel of stream 7 ends last before the host goes on, and it waited for that of stream 8
    events = [
        launch("cudaLaunchKernel", 0.0, 1),
        launch("cudaLaunchKernel", 4.0, 2),
        wait("cudaStreamSynchronize", 8.0, 29.0),
        launch("cudaLaunchKernel", 60.0, 4),
        kernel(2.0, 34.5, 1),
        kernel(6.0, 30.0, 2, stream=8),
        kernel(62.0, 10.0, 4, stream=9),
    ]
    of_stream = synchronized("Stream Sync", 900, stream=8)
    later = starts(imported(tmp_path, *events), 1.0, 2.0, 1.0)[2]
    recorded = starts(imported(tmp_path, *events, of_stream), 1.0, 2.0, 1.0)[2]
    assert (later, recorded) == (60.0, 90.0)


@pytest.mark.parametrize("broken", [{"stream": "x"}, {"wait_on_stream": None}, {}])
def test_broken_records_of_synchronization_are_counted(
    broken: dict[str, Any], tmp_path: Path
) -> None:
    content = [event("cuda_sync", "Stream Wait Event", 1.0, 1.0, **broken), kernel(0.0, 50.0, 1)]
    profile = imported(tmp_path, *content)
    assert "1 event without a valid time" in " ".join(profile.integrity)
