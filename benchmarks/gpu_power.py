"""Record power, energy and clocks of the local GPU under a fixed list of sustained loads.

`python benchmarks/gpu_power.py --device h200_sxm` writes power.csv, transient.csv and
manifest.json into measurements/<device>/<date>_<suite>/. NVML averages power over a second on
recent GPUs, so every load runs for `--warm-s` before a window of `--window-s` is recorded. Without
a CUDA device the result is one row that states this.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_kernels import missing_device, suite_folder
from gpu_power_cuda import Kernels, build
from gpu_power_points import COLUMNS, SUITE, SUITES
from gpu_telemetry import AVERAGED_S, Nvml, Sample, Telemetry, connected, summary
from gpu_timing import list_hash, write_rows

from perfatlas import __version__
from perfatlas.files import file_hash, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_power_torch import Replay

BATCH_S = 0.02  # GPU time submitted at once; two batches are in flight
SPIN_S = 0.002  # shorter pauses are busy-waited
IDLE_S = (4.0, 4.0)  # waited, and recorded: clocks drop some time after a load
TRANSIENT_S = (1.5, 4.0)  # idle before and after a load
LOAD_S = 8.0
TRANSIENT_ROWS = 400
PROTOCOL = (
    "one load at a time, as CUDA graphs with two batches in flight; loads named gaps wait for the"
    " host after each burst; NVML sampled every 10 ms in the same process; clocks, power cap and"
    " other settings unchanged"
)


@dataclass(kw_only=True)
class Window:
    """Load of a recorded window.

    Args:
        loaded_s, began_s, ended_s: Start of the load, start and end of the window [s].
        busy_s: GPU time of these calls [s].
        shares: Utilization of units, from the performance counters.
    """

    loaded_s: float
    began_s: float = 0.0
    ended_s: float = 0.0
    calls: int = 0
    busy_s: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Meter:
    """Recording of a load.

    Args:
        nvml: The GPU.
        telemetry: Its samples.
        warm_s, window_s: Duration of a load before and during recording [s].
    """

    nvml: Nvml
    telemetry: Telemetry
    warm_s: float
    window_s: float

    def idle(self) -> Window:
        """Return an idle window."""
        window = Window(loaded_s=time.monotonic())
        time.sleep(IDLE_S[0])
        window.began_s = time.monotonic()
        time.sleep(IDLE_S[1])
        window.ended_s = time.monotonic()
        return window

    def steady(self, replay: Replay) -> Window:
        """Return a window of continuous load."""
        import torch

        count = max(1, round(BATCH_S / replay.time_s))

        def submit() -> torch.cuda.Event:
            for _ in range(count):
                replay.graph.replay()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event

        window = Window(loaded_s=time.monotonic())
        begin, before, batches = None, None, 0
        last, following = submit(), submit()
        while True:
            last.synchronize()
            now_s = time.monotonic()
            if begin is not None:
                batches += 1
                if now_s - window.began_s >= self.window_s:
                    break
            elif now_s - window.loaded_s >= self.warm_s:
                begin, window.began_s = last, now_s
                before = self.nvml.counters()
            last, following = following, submit()
        window.ended_s = now_s
        window.shares = self.nvml.shares(before, self.nvml.counters())
        window.busy_s = float(begin.elapsed_time(last)) * 1e-3
        window.calls = batches * count * replay.calls
        following.synchronize()
        return window

    def bursts(self, replay: Replay, busy_s: float, gap_s: float) -> Window:
        """Return a window of bursts, after each of which the GPU waits for the host.

        Args:
            replay: Calls repeated in a burst.
            busy_s: Length of a burst [s].
            gap_s: Pause after it [s].
        """
        import torch

        count = max(1, round(busy_s / replay.time_s))
        window = Window(loaded_s=time.monotonic())
        before = None
        while not window.began_s or time.monotonic() - window.began_s < self.window_s:
            if not window.began_s and time.monotonic() - window.loaded_s >= self.warm_s:
                window.began_s = time.monotonic()
                before = self.nvml.counters()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(count):
                replay.graph.replay()
            end.record()
            end.synchronize()
            pause(gap_s)
            if window.began_s:
                window.busy_s += float(begin.elapsed_time(end)) * 1e-3
                window.calls += count * replay.calls
        window.ended_s = time.monotonic()
        window.shares = self.nvml.shares(before, self.nvml.counters())
        return window


def pause(gap_s: float) -> None:
    """Wait, busily where the operating system's sleep is too coarse."""
    end_s = time.monotonic() + gap_s
    if gap_s > SPIN_S:
        time.sleep(gap_s)
    while time.monotonic() < end_s:
        pass


def finished_point(
    point: Mapping[str, Any], window: Window, samples: Sequence[Sample], replay: Replay | None
) -> dict[str, Any]:
    """Return a row of power.csv.

    Args:
        point: A row of `gpu_power_points.points`.
        window: The recorded window.
        samples: Samples of the window.
        replay: The load, None for none.
    """
    span_s = window.ended_s - window.began_s
    row = {
        **dict.fromkeys(COLUMNS),
        **point,
        "window_s": span_s,
        **summary(samples, window.loaded_s),
    }
    if replay is not None:
        work = replay.work
        rate = window.calls / span_s if "gap_s" in point else window.calls / window.busy_s
        row |= {
            "time_s": window.busy_s / window.calls,
            "calls": window.calls,
            "busy_share": min(1.0, window.busy_s / span_s),
            "flop": work.flop,
            "bytes": work.bytes_moved,
            "exponentials": work.exponentials,
            "cold": int(work.cold),
            "flop_per_s": work.flop * rate,
            "bytes_per_s": work.bytes_moved * rate,
        }
    return {name: rounded(value) for name, value in {**row, **window.shares}.items()}


def rounded(value: object) -> object:
    """Return a number rounded to seven digits, the precision of readings."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def transient(meter: Meter, replay: Replay, load_s: float) -> tuple[Window, list[dict[str, Any]]]:
    """Return the window of the load and the readings before, during and after it.

    Args:
        meter: The recording.
        load_s: Its duration [s].
    """
    before_s, after_s = TRANSIENT_S
    began_s = time.monotonic()
    time.sleep(before_s)
    held = Meter(nvml=meter.nvml, telemetry=meter.telemetry, warm_s=0.5, window_s=load_s - 0.5)
    window = held.steady(replay)
    time.sleep(after_s)
    step_s = (before_s + load_s + after_s) / TRANSIENT_ROWS
    rows: list[dict[str, Any]] = []
    for sample in meter.telemetry.span(began_s, time.monotonic()):
        at_s = sample.at_s - window.loaded_s
        if not rows or at_s - float(rows[-1]["at_s"]) >= step_s:
            columns = {name: value for name, value in sample._asdict().items() if value == value}  # noqa: PLR0124 - nan
            rows.append({**columns, "at_s": round(at_s, 3), "energy_j": round(sample.energy_j, 3)})
    return window, rows


@dataclass(kw_only=True)
class Study:
    """Rows so far, written after every point so that an interruption loses nothing."""

    suite: str  # Name of the list of points
    folder: Path  # Output folder
    facts: dict[str, Any]  # Facts of the manifest
    rows: list[dict[str, Any]] = field(default_factory=list)
    not_run: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row and print its main values."""
        self.rows.append({"point": len(self.rows) + 1, **row})
        shown = ("study", "kernel", "format", "inputs", "m", "working_set_bytes", "sms", "time_s")
        notes = [str(row[name]) for name in shown if row.get(name) not in (None, "")]
        power = [f"{row[name] or 0:.1f} W" for name in ("power_instant_w", "energy_power_w")]
        rates = [f"{row.get(name, 0) / 1e12:.4g} T" for name in ("flop_per_s", "bytes_per_s")]
        clock = f"{(row['clock_hz'] or 0) / 1e6:.0f} MHz"
        print(len(self.rows), *notes, *rates, *power, clock, row["event_reasons"], flush=True)
        write_rows(self.folder / "power.csv", self.rows)
        self.write_manifest()

    def write_manifest(self) -> None:
        """Write the manifest."""
        manifest = {
            "suite": self.suite,
            "list_hash": list_hash(SUITES[self.suite]()),
            "rows_hash": file_hash(self.folder / "power.csv"),
            "rows": len(self.rows),
            "not_run": self.not_run,
            "protocol": PROTOCOL,
            "perfatlas": __version__,
            **self.facts,
        }
        write_atomic(self.folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")


def measure(asked: argparse.Namespace, chosen: Sequence[dict[str, Any]]) -> Study | None:
    """Measure points within the time limit; return the rows, None without NVML."""
    nvml = connected()
    if nvml is None:
        print("gpu_power: not run: NVML is not available (package nvidia-ml-py)")
        return None
    ends_s = time.monotonic() + asked.limit_s
    words = " ".join(sys.argv[1:])
    facts = {"device": asked.device, **nvml.facts(), "command": f"gpu_power.py {words}"}
    folder = suite_folder(asked.folder, asked.device, asked.suite)
    study = Study(suite=asked.suite, folder=folder, facts=facts)
    with tempfile.TemporaryDirectory() as scratch, Telemetry(nvml.read) as telemetry:
        meter = Meter(nvml=nvml, telemetry=telemetry, warm_s=asked.warm_s, window_s=asked.window_s)
        library = Path(scratch) / "kernels.so"
        compiler = build(library)
        window = meter.idle()
        first = {"study": "idle", "kernel": "none", "note": "no context", "priority": 1}
        samples = telemetry.span(window.began_s, window.ended_s)
        if not samples:
            raise RuntimeError("gpu_power: NVML gave no samples")
        study.add(finished_point(first, window, samples, None))
        if compiler.wait():
            raise RuntimeError("gpu_power: nvcc failed")
        _measure_all(study, meter, chosen, library, ends_s)
    return study


def _measure_all(
    study: Study, meter: Meter, chosen: Sequence[dict[str, Any]], library: Path, ends_s: float
) -> None:
    import torch

    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    kernels = Kernels(library)
    properties = torch.cuda.get_device_properties(0)
    study.facts |= {
        "stack": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "l2_bytes": properties.L2_cache_size,
        "sm_count": properties.multi_processor_count,
        "warm_s": meter.warm_s,
        "window_s": meter.window_s,
    }
    for point in chosen:
        length_s = point.get("load_s", LOAD_S) + sum(TRANSIENT_S)
        length_s = length_s if point["study"] == "transient" else 1.0
        try:
            if time.monotonic() + length_s + meter.warm_s + meter.window_s > ends_s:
                raise TimeoutError("time limit")  # noqa: TRY301 - a reason like the others
            _measure_one(study, meter, point, kernels, properties.L2_cache_size)
        except (RuntimeError, NotImplementedError, AttributeError, TimeoutError) as problem:
            reason = str(problem).split("\n")[0][:200]
            study.not_run.append({"point": dict(point), "reason": reason})
            print("not run:", point, reason, flush=True)
        torch.cuda.empty_cache()
    study.write_manifest()


def _measure_one(
    study: Study, meter: Meter, point: dict[str, Any], kernels: Kernels, l2_bytes: float
) -> None:
    replay = None
    if point["study"] == "idle":
        window = meter.idle()
    else:
        from gpu_power_torch import Replay, work_for

        replay = Replay(work_for(point, kernels, l2_bytes))
        if point["study"] == "transient":
            window, readings = transient(meter, replay, point.get("load_s", LOAD_S))
            write_rows(study.folder / "transient.csv", readings)
        elif "gap_s" in point:
            window = meter.bursts(replay, point["busy_s"], point["gap_s"])
        else:
            window = meter.steady(replay)
    samples = meter.telemetry.span(window.began_s, window.ended_s)
    study.add(finished_point(point, window, samples, replay))
    del meter.telemetry.samples[:-1]


def main(words: Sequence[str] | None = None) -> int:
    """Measure, or state in one row why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="h200_sxm", help="catalog name of the GPU")
    parser.add_argument("--suite", default=SUITE, choices=SUITES, help="list of points")
    parser.add_argument(
        "--folder", type=Path, help="parent folder of measurements/; by default the current one"
    )
    parser.add_argument("--study", nargs="*", default=[], help="measure only these studies")
    parser.add_argument("--priority", type=int, default=2, help="2: all points, 1: the main ones")
    parser.add_argument("--warm-s", type=float, default=0.6, help="load before the window [s]")
    parser.add_argument("--window-s", type=float, default=2.4, help="length of the window [s]")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="start no point after [s]")
    asked = parser.parse_args(words)
    reason = missing_device("gpu_power")
    if reason:
        print(reason)
        return 0
    if asked.warm_s + asked.window_s < AVERAGED_S:
        print(f"gpu_power: power_average_w needs {AVERAGED_S} s of load: left empty")
    chosen = [
        point
        for point in SUITES[asked.suite]()
        if point["priority"] <= asked.priority and point["study"] in (asked.study or point["study"])
    ]
    study = measure(asked, chosen)
    return 0 if study is not None and study.rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
