"""Timing of GPU kernels without torch: the loop, the clock, the files."""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas import __version__
from perfatlas.files import content_hash, file_hash, write_atomic, write_table
from perfatlas.measurements.tables import read_measured_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gpu_telemetry import Telemetry

WARMUPS = 3
MIN_BATCHES = 7
MIN_S = 0.3  # long enough for some samples of clock and power
MAX_BATCHES = 20000
COLD_FACTOR = 3.0  # bytes of all copies over the last-level cache
MAX_COPIES = 512
MIN_CALLS = 16  # in one graph, to amortise its launch
FAMILY = "torch"
PROTOCOL = (
    "CUDA graph of back-to-back calls; every tensor rotates through copies larger than"
    f" {COLD_FACTOR:g} times the last-level cache (at most {MAX_COPIES}); random normal inputs;"
    f" {WARMUPS} warm-up replays, then at least {MIN_BATCHES} replays and {MIN_S:g} s; median"
    " replay over calls; clocks not locked, SM clock and instantaneous power sampled through NVML"
)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One measured shape.

    Args:
        time_s: Median time of one call [s].
        spread: (90% - 10% quantile) over the median, of whole replays.
        batches: Number of replays.
        began_s, ended_s: Start and end, by `time.monotonic`.
    """

    time_s: float
    spread: float
    batches: int
    began_s: float
    ended_s: float


def time_calls(run_batch: Callable[[], float], calls: int, least_s: float = MIN_S) -> Timed:
    """Return the time of one call.

    Args:
        run_batch: Runs `calls` calls and returns their time [s].
        calls: Calls of one batch.
        least_s: Minimum measuring time [s].
    """
    for _ in range(WARMUPS):
        run_batch()
    began_s = time.monotonic()
    batches: list[float] = []
    spent_s = 0.0
    while len(batches) < MIN_BATCHES or (spent_s < least_s and len(batches) < MAX_BATCHES):
        batches.append(run_batch())
        spent_s += batches[-1]
    middle = statistics.median(batches)
    deciles = statistics.quantiles(batches, n=10, method="inclusive")
    return Timed(
        time_s=middle / calls,
        spread=(deciles[-1] - deciles[0]) / middle,
        batches=len(batches),
        began_s=began_s,
        ended_s=time.monotonic(),
    )


def copies_of(call_bytes: float, l2_bytes: float, free_bytes: float) -> tuple[int, bool]:
    """Return the number of copies of all tensors, and whether they keep L2 cold.

    Args:
        l2_bytes: Last-level cache.
        free_bytes: Memory the copies may take.
    """
    wanted = max(2, math.ceil(COLD_FACTOR * l2_bytes / call_bytes) + 1)
    fitting = max(1, int(free_bytes / call_bytes))
    copies = min(wanted, MAX_COPIES, fitting)
    return copies, copies == wanted


def finished_row(
    shape: Mapping[str, Any], timed: Timed, telemetry: Telemetry, protocol: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a measured row in the schema of `perfatlas.measurements.tables.rows`.

    Args:
        shape: A row of `gpu_shapes.shapes`.
        timed: Its time.
        telemetry: Samples of clock and power.
        protocol: device, stack, copies, hot and shared_activation.
    """
    clock_hz, power_w = telemetry.between(timed.began_s, timed.ended_s)
    measured = {"kernel_family": FAMILY, "graph": 1, "time_s": timed.time_s}
    return {**shape, **protocol, **measured, "clock_hz": clock_hz, "power_w": power_w}


def list_hash(chosen: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash that identifies a list of shapes or points."""
    return content_hash(json.dumps(tuple(chosen), sort_keys=True))


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as a table; missing columns are empty.

    Args:
        path: The table; its folder is created.
        rows: Column -> cell.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_table(path, {name: [row.get(name) for row in rows] for name in names})


def write_suite(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    not_run: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
) -> None:
    """Write rows.csv and manifest.json; the rows are read back as user rows.

    Args:
        folder: measurements/<device>/<date>_<suite>; created.
        rows: Measured rows.
        not_run: Failed shapes, each with its reason.
        facts: Suite, hash of its list, device, stack and command.
    """
    path = folder / "rows.csv"
    write_rows(path, rows)
    read_measured_rows(path)
    write_manifest(path, len(rows), not_run, {"protocol": PROTOCOL, **facts})


def write_manifest(
    table: Path, rows: int, not_run: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    """Write manifest.json beside a table.

    Args:
        table: The table that was written.
        not_run: What failed, each with its reason.
        facts: Suite, hash of its list, protocol, device, stack and command.
    """
    of_rows = {"rows": rows, "rows_hash": file_hash(table), "not_run": list(not_run)}
    text = json.dumps({**of_rows, "perfatlas": __version__, **facts}, indent=2)
    write_atomic(table.with_name("manifest.json"), text + "\n")
