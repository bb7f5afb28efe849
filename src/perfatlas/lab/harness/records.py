"""Records: cases measured, beside ceilings and prediction, with bound and reason."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.answer import price_columns
from perfatlas.engines import resolve_engine
from perfatlas.lab.harness.clocks import CpuClock, GpuClock, Sample, TorchTimer
from perfatlas.lab.harness.collectives import COLLECTIVES, rank_times_s
from perfatlas.lab.harness.executions import INPUT, OWN, Builder
from perfatlas.lab.harness.loop import Arm, Measurement, Protocol, measure, one_thread
from perfatlas.lab.harness.machine import Machine, Readings, Sensors
from perfatlas.lab.kernels import designed_time_s
from perfatlas.machines import DeviceColumns, price_operators
from perfatlas.quantities import PerfatlasError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfatlas.hardware import System
    from perfatlas.lab.harness.cases import Case
    from perfatlas.lab.harness.ceilings import Ceilings
    from perfatlas.lab.harness.clocks import Clock

CACHE_MULTIPLE: Final = 3.0  # of the last-level cache, that cold data covers
MAX_COPIES: Final = 8192
NO_ENERGY: Final = "energy of a kernel: power is not read while it runs"
MEMORY_SHARE: Final = 0.25  # of the machine, for the data of a case
MAX_SAMPLES: Final = 200  # raw samples in a record
FASTER_THAN_CEILING: Final = 0.05  # of the ceiling, which is itself measured
FAMILY: Final = "torch"
FAILURES: Final = (PerfatlasError, RuntimeError, MemoryError, ValueError)  # of a case or an arm
SHAPES: Final = (
    *("m", "n", "k", "batch", "q_len", "kv_len", "num_heads", "num_kv_heads", "head_dim"),
    *("latent", "rotary"),
    *("tokens", "width", "hidden", "intermediate", "experts", "top_k"),
    *("rows", "build_rows", "groups", "per_row", "ranks", "bytes"),
)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What cases are measured on and compared with."""

    machine: Machine  # The device
    ceilings: Ceilings  # Its ceilings
    # The system whose prices are the prediction; None for the ceilings alone
    system: System | None = None
    listed: str = ""  # Name of the machine in the catalog, "" if it has none
    protocol: Protocol = field(default_factory=Protocol)  # How cases are measured


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Time of one execution before it is measured."""

    time_s: float | None  # Time [s]
    low_s: float | None  # Lower end of the 90% interval [s]
    high_s: float | None  # Upper end; None for a lower limit [s]
    bound: str  # compute or memory
    tier: str  # Tier of the price
    bytes_per_s: float  # Bandwidth that bounds it [bytes/s]


def run_cases(cases: Sequence[Case], bench: Bench) -> Iterator[list[dict[str, Any]]]:
    """Return the records of each case as it is measured, one record per arm.

    A case that cannot run has records with the reason.

    Args:
        cases: What is measured.
        bench: On what.
    """
    for case in cases:
        try:
            yield _records(case, bench)
        except FAILURES as problem:
            yield [_failed(case, arm, bench, problem) for arm in case.arms]


def _records(case: Case, bench: Bench) -> list[dict[str, Any]]:
    if case.system and case.system != bench.listed:
        raise UnsupportedError(
            f"to be measured on {case.system}, and this machine is {bench.machine.device}"
        )
    copies, failed = _copies(case, bench.machine), []
    sensors, start_s = Sensors(bench.machine), time.perf_counter()
    if case.operator in COLLECTIVES:
        size, ranks = case.shape["bytes"], case.shape["ranks"]
        times_s = rank_times_s(case.operator, size, ranks, gpu=bench.machine.gpu)
        samples = [Sample(time_s, time_s) for time_s in times_s]
        measurements, clock_name = (
            [Measurement(arm=case.arms[0], samples=samples)],
            "wall time, longest of all ranks",
        )
        missing: tuple[str, ...] = ()
    else:
        make, arms = Builder("cuda" if bench.machine.gpu else "cpu"), []
        with one_thread():
            for arm in case.arms:
                try:
                    calls = [make.build(case, arm) for _ in range(copies)]
                    calls[0]()
                    arms.append(Arm(name=arm, calls=calls))
                except FAILURES as problem:
                    failed.append(_failed(case, arm, bench, problem))
            clock = _clock(arms, bench.machine)
            measurements = measure(arms, clock, bench.protocol) if arms else []
            clock_name, missing = clock.name, clock.unmeasured
    readings = sensors.read(time.perf_counter() - start_s)
    readings = replace(readings, unread=(*readings.unread, *missing))
    predicted = predict(case, bench)
    return [
        {
            **_question(case, measurement.arm, bench),
            "copies": 0 if case.data == "cold" else 1,
            "data_copies": copies,
            "protocol": clock_name,
            **_statistics(measurement),
            **_rates(case, measurement, readings),
            **_against_ceilings(case, measurement.interval.median, predicted, bench),
            "error_code": None,
            "error": None,
        }
        for measurement in measurements
    ] + failed


def _failed(case: Case, arm: str, bench: Bench, problem: Exception) -> dict[str, Any]:
    """Return the record of an arm that cannot run."""
    code = getattr(problem, "error_code", "failed")
    reason = str(problem).strip().splitlines()[0] if str(problem).strip() else repr(problem)
    return {**_question(case, arm, bench), "error_code": code, "error": reason}


def _question(case: Case, arm: str, bench: Bench) -> dict[str, Any]:
    """Return what identifies a record."""
    return {
        "suite": case.suite,
        "case": case.label,
        "name": case.name or case.operator,
        "operator": case.operator,
        "system": case.system or None,
        "kernel": arm,
        "format": case.format or None,
        "data": case.data,
        "count": case.count,
        **{name: case.shape.get(name) for name in SHAPES},
        "input": INPUT,
        "device": bench.system.device.name if bench.system else bench.machine.name,
        "product": bench.machine.device,
        "kernel_family": FAMILY,
        "driver": bench.machine.versions.get("driver"),
        "stack": bench.machine.stack,
        "designed_s": _designed_s(case, arm, bench),
    }


def _designed_s(case: Case, arm: str, bench: Bench) -> float | None:
    """Return what `kernel design` predicts of a kernel of perfatlas, where it answers."""
    if arm != OWN or bench.system is None:
        return None
    return designed_time_s(case.operator, case.shape, case.format, bench.system.device)


def _copies(case: Case, machine: Machine) -> int:
    """Return how many copies of the data executions take in turn."""
    footprint = max(case.work.bytes, 1.0)
    if footprint > MEMORY_SHARE * machine.memory_bytes:
        raise UnsupportedError(
            f"its data of {footprint / 1e9:.3g} GB is more than {MEMORY_SHARE:.0%} of the memory"
        )
    if case.data == "hot":
        return 1
    wanted = math.ceil(CACHE_MULTIPLE * machine.cache_bytes / footprint)
    if wanted > MAX_COPIES:
        raise UnsupportedError(
            f"its data of {footprint:.3g} bytes are too small to be cold: {MAX_COPIES} copies do"
            f" not cover {CACHE_MULTIPLE:g} caches of {machine.cache_bytes / 1e6:.3g} MB"
        )
    return max(wanted, 1)


def _clock(arms: Sequence[Arm], machine: Machine) -> Clock:
    """Return the clock: CPU time of the thread, wall time if an arm works on other threads."""
    if machine.gpu:
        return GpuClock(TorchTimer())
    for arm in arms:
        arm.calls[0]()
        start = (time.thread_time(), time.process_time())
        arm.calls[0]()
        thread_s, process_s = time.thread_time() - start[0], time.process_time() - start[1]
        if thread_s < 0.5 * process_s:
            return CpuClock(wall=True)
    return CpuClock()


def _statistics(measurement: Measurement) -> dict[str, Any]:
    interval = measurement.interval
    is_warm = measurement.warm or not measurement.warm_up
    wall_s = float(np.median([sample.wall_s for sample in measurement.kept]))
    return {
        "time_s": interval.median,
        "time_s_low": interval.low,
        "time_s_high": interval.high,
        "wall_s": wall_s,
        "interference": wall_s / interval.median - 1.0,
        "samples": len(measurement.times_s),
        "dropped": measurement.dropped,
        "calls_per_sample": measurement.calls,
        "warm_up": measurement.warm_up,
        "state": measurement.state + ("" if is_warm else ", not warm"),
        "samples_s": " ".join(f"{value:.5g}" for value in measurement.times_s[:MAX_SAMPLES]),
    }


def _rates(case: Case, measurement: Measurement, readings: Readings) -> dict[str, Any]:
    time_s, work = measurement.interval.median, case.work
    return {
        "flop": work.flop,
        "moved_bytes": work.bytes,
        "flop_per_s": work.flop / time_s if work.flop else None,
        "bytes_per_s": work.bytes / time_s,
        "clock_hz": readings.clock_hz,
        "power_w": readings.power_w,
        "energy_j": None,
        "temperature_c": readings.temperature_c,
        "throttled": readings.throttled,
        "unmeasured": "; ".join((*readings.unread, NO_ENERGY)),
    }


def predict(case: Case, bench: Bench) -> Prediction:
    """Return the predicted time of a case: of the system's kernels, else the roofline."""
    ceilings, work = bench.ceilings, case.work
    resident = work.bytes if case.data == "hot" else math.inf
    bandwidth = (
        ceilings.bandwidth(resident) if math.isfinite(resident) else (ceilings.memory_bytes_per_s)
    )
    memory_s = work.bytes / bandwidth
    peak = ceilings.flop_per_s.get(case.format)
    compute_s = work.flop / peak if peak else 0.0
    bound = "compute" if compute_s > memory_s else "memory"
    priced = _priced(case, bench.system) if bench.system else None
    if priced:
        return replace(priced, bytes_per_s=bandwidth)
    if case.operator in COLLECTIVES:
        return Prediction(
            time_s=None, low_s=None, high_s=None, bound="network", tier="", bytes_per_s=bandwidth
        )
    limit_s = max(compute_s, memory_s)
    return Prediction(
        time_s=limit_s, low_s=limit_s, high_s=None, bound=bound, tier="bound", bytes_per_s=bandwidth
    )


def _priced(case: Case, system: System) -> Prediction | None:
    """Return the price of a case on a system; None if it has none."""
    if case.priced is None:
        return None
    devices = DeviceColumns(devices=(system.device,), index_C=np.zeros(1, np.int64))
    family = resolve_engine("ideal").kernel_family
    try:
        prices = price_operators([case.priced], devices, family=family, tier="auto")
    except PerfatlasError:
        return None
    columns = {name: values[0] for name, values in price_columns(prices).items()}
    if not columns["time_s"]:
        return None
    return Prediction(
        time_s=columns["time_s"],
        low_s=columns["time_s_low"],
        high_s=columns["time_s_high"],
        bound=columns["bound"],
        tier=columns["tier"],
        bytes_per_s=system.device.memory_bandwidth,
    )


def _against_ceilings(
    case: Case, time_s: float, predicted: Prediction, bench: Bench
) -> dict[str, Any]:
    """Return ceilings, prediction, residual, bound and reason."""
    expected_s = predicted.time_s
    peak = bench.ceilings.flop_per_s.get(case.format) if case.work.flop else None
    return {
        "ceiling_flop_per_s": peak,
        "ceiling_bytes_per_s": predicted.bytes_per_s,
        "ceilings": bench.ceilings.origin,
        "predicted_s": expected_s,
        "predicted_s_low": predicted.low_s,
        "predicted_s_high": predicted.high_s,
        "tier": predicted.tier or None,
        "residual": None if expected_s is None else time_s / expected_s - 1.0,
        "bound": predicted.bound,
        "why": _why(case, time_s, predicted, bench),
    }


def _why(case: Case, time_s: float, predicted: Prediction, bench: Bench) -> str:
    """Return in words how the time compares with its ceilings."""
    expected_s, ceilings = predicted.time_s, bench.ceilings
    if expected_s is None:
        return "no ceiling of transfers between processes is known"
    if time_s < (1.0 - FASTER_THAN_CEILING) * expected_s and predicted.tier == "bound":
        where = "hot data are in caches" if case.data == "hot" else "part of the data is in caches"
        return f"faster than its {predicted.bound} ceiling: {where}, or the ceiling is low"
    if ceilings.call_s > 0.3 * time_s:
        return f"calls of {ceilings.call_s * 1e6:.2g} µs are a large part of the time"
    if predicted.tier != "bound":
        high_s = predicted.high_s or math.inf
        inside = (predicted.low_s or 0.0) <= time_s <= high_s
        return f"{'inside' if inside else 'outside'} the 90% interval of the prediction"
    return f"reaches {expected_s / time_s:.0%} of its {predicted.bound} ceiling"


def measured_rows(records: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return the records that calibrations can be fitted to, as columns of measured rows.

    They are those of the baseline in formats of perfatlas, and of operators with calibrations.

    Args:
        records: Records of suites.

    Raises:
        UnsupportedError: No record is such a row.
    """
    from perfatlas.formats import formats
    from perfatlas.measurements.tables import COLUMNS, SHAPE_COLUMNS

    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    for record in records:
        name = record["operator"] if record["operator"] in SHAPE_COLUMNS else _streamed(record)
        if (
            name is None
            or record["error"]
            or record["format"] not in formats()
            or record["case"] in seen
        ):
            continue
        seen.add(record["case"])
        row = {
            **record,
            "operator": name,
            "kv_format": record["format"],
            "count": record["samples"],
        }
        row |= {"bytes": record["moved_bytes"]} if name == "streaming" else {}
        row |= {"hot": int(record["data"] == "hot"), "graph": 1}
        rows.append({key: row[key] for key in COLUMNS if key in row})
    if not rows:
        raise UnsupportedError(
            "no record is a row for calibrations: they have matrix products, attention, experts and"
            f" streaming kernels in {', '.join(formats())}"
        )
    return {key: [row[key] for row in rows] for key in rows[0]}


def _streamed(record: dict[str, Any]) -> str | None:
    return "streaming" if record["width"] is not None and record["tokens"] is not None else None


def collected(
    measured: Iterator[list[dict[str, Any]]], progress: Callable[[list[dict[str, Any]]], None]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the records so far and whether the run was interrupted by Ctrl-C.

    Args:
        measured: Records of each case.
        progress: Called with the records of each case.
    """
    records: list[dict[str, Any]] = []
    try:
        for rows in measured:
            records += rows
            progress(rows)
    except KeyboardInterrupt:
        return records, True
    return records, False
