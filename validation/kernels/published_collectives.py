"""Published runs of collectives, mostly beyond the measured ranks, and predictions."""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.laboratories import published_times
from validation.scoring import read_data, scores_beside_constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.laboratories import PublishedTime

Row = dict[str, Any]


def validate_published() -> dict[str, list[Row]]:
    """Return the predictions of tier physics for published runs not used in fits.

    Returns:
        {"published": a row per run with published and predicted time, error = predicted/published
        time - 1, and whether the run is inside the 90% interval; "published_totals": mean and
        median of |error|, mean error and share inside, per operation and over all}.
    """
    runs = {run["id"]: run for run in read_data("collective_runs.toml")["run"]}
    rows = [_scored(runs[time.id], time) for time in published_times() if time.id in runs]
    groups = {op: [row for row in rows if row["op"] == op] for op in {r["op"]: 0 for r in rows}}
    totals = [_total(op, found) for op, found in groups.items()]
    return {"published": rows, "published_totals": [*totals, _total("all", rows)]}


def _scored(run: Mapping[str, Any], time: PublishedTime) -> Row:
    low_s, high_s = time.tabulated_s
    return {
        **run,
        "published_s": time.published_s,
        "time_s": time.time_s,
        "low_s": low_s,
        "high_s": high_s,
        "error": round(time.time_s / time.published_s - 1.0, 4),
        "inside_90": low_s <= time.published_s <= high_s,
    }


def _total(name: str, rows: Sequence[Mapping[str, Any]]) -> Row:
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
