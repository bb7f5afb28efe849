"""Published runs of collectives, mostly beyond the measured ranks, and predictions."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.collectives import (
    CollectiveShapes,
    Implementation,
    price_collectives,
    ring_wire_bytes,
)
from perfatlas.hardware import resolve_system
from validation.scoring import read_data, scores_beside_constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def validate_published() -> dict[str, Any]:
    """Return the predictions of tier physics for published runs not used in fits.

    Returns:
        {"published": a row per run with published and predicted time and bus bandwidth, error
        = predicted/published time - 1, and whether the run is inside the 90% interval;
        "published_totals": mean and median of |error|, mean error and share inside, per operation
        and over all}.
    """
    rows = [_scored(run) for run in read_data("collective_runs.toml")["run"]]
    groups = {
        op: [row for row in rows if row["op"] == op] for op in {row["op"]: None for row in rows}
    }
    totals = [_total(op, found) for op, found in groups.items()]
    return {"published": rows, "published_totals": [*totals, _total("all", rows)]}


def _scored(run: Mapping[str, Any]) -> dict[str, Any]:
    size, ranks = np.array([float(run["bytes"])]), np.array([float(run["gpus"])])
    wire_bytes = float(ring_wire_bytes(run["op"], size, ranks)[0])
    published_s = run.get("time_s") or wire_bytes / run["busbw_bytes_per_s"]
    priced = price_collectives(
        CollectiveShapes(op=run["op"], bytes=size, ranks=ranks, stride=np.ones(1)),
        systems=[resolve_system(run["system"])],
        system_index_U=np.zeros(1, np.int64),
        tier="physics",
        implementation=Implementation(family=run.get("family", "")),
    )
    time_s, low_s, high_s = (
        float(each_CO[0, 0])
        for each_CO in (priced.prices.time_s_CO, priced.prices.low_s_CO, priced.prices.high_s_CO)
    )
    return {
        **run,
        "published_s": published_s,
        "time_s": time_s,
        "low_s": low_s,
        "high_s": high_s,
        "published_busbw": wire_bytes / published_s,
        "busbw": wire_bytes / time_s,
        "algorithm": str(priced.algorithm_U[0]),
        "error": round(time_s / published_s - 1.0, 4),
        "inside_90": low_s <= published_s <= high_s,
    }


def _total(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    errors = [row["error"] for row in rows]
    return {
        "op": name,
        "rows": len(rows),
        "mape": round(fmean(abs(error) for error in errors), 4),
        "median_error": round(median(abs(error) for error in errors), 4),
        "bias": round(fmean(errors), 4),
        "inside_90": round(fmean(row["inside_90"] for row in rows), 4),
        **_scores(rows),
    }


def _scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the interval score, and that of a constant width fitted to all other sources."""
    published, low, high = (
        np.log([row[name] / row["time_s"] for row in rows])
        for name in ("published_s", "low_s", "high_s")
    )
    return scores_beside_constant(
        published, (low, high), [row["source"].split()[0] for row in rows]
    )
