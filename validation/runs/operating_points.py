"""Simulated and measured operating points of a public experiment."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.fitting import error_statistics
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import resolve_traffic, run_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import summarize
from validation.runs.shared_data import missing_data, read_table, shared_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.deployments import Priced
    from validation.runs.run_selection import ServingRules
    from validation.runs.serving_rows import ServingRun

Row = dict[str, Any]
FILE: Final = "serving_measured.csv"
SECONDS_PER_MILLISECOND: Final = 1e-3
# metric of the file -> figure, its statistic here, seconds per unit of the file
METRICS: Final = {
    "median_ttft": ("ttft", SECONDS_PER_MILLISECOND),
    "median_tpot": ("tpot", SECONDS_PER_MILLISECOND),
    "median_e2el": ("request_latency", SECONDS_PER_MILLISECOND),
    "duration": ("makespan", 1.0),
}
FIGURES: Final = tuple(name for name, _ in METRICS.values())
MATCHED_COLUMNS: Final = ("network", "system", "tp", "isl", "concurrency")
SIZES: Final = ("tp", "ep", "dp", "isl", "osl", "concurrency", "num_requests")


def compare_points(rules: ServingRules) -> tuple[list[Row], list[str]]:
    """Return measured and simulated medians of every point, and missing files.

    Returns:
        One row per point: plan, lengths, load, `_measured_s`, `_s` and `_error` of TTFT, TPOT,
        request latency and makespan; sentences of missing files.
    """
    path = shared_folder() / FILE
    if not path.is_file():
        return [], [missing_data(path)]
    point_fields = rules.points
    mine = [
        row
        for row in read_table(path)
        if row["model"] == point_fields["model"] and row["gpu"] == point_fields["gpu"]
    ]
    try:
        points = _points(mine)
    except (KeyError, ValueError) as error:
        raise InvalidSpecError(f"{path} is not a table of operating points: {error}") from None
    known: Priced = {}
    return [
        _compared(sizes, found, point_fields, known) for sizes, found in sorted(points.items())
    ], []


def _points(rows: Sequence[Mapping[str, str]]) -> dict[tuple[int, ...], dict[str, float]]:
    """Return figures [s] of every point, by its sizes."""
    points: dict[tuple[int, ...], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["metric"] in METRICS:
            name, unit = METRICS[row["metric"]]
            points[tuple(int(row[size]) for size in SIZES)][name] = float(row["value"]) * unit
    return points


def _compared(
    sizes: tuple[int, ...],
    measured: Mapping[str, float],
    point_fields: Mapping[str, str],
    known: Priced,
) -> Row:
    row: Row = dict(zip(SIZES, sizes, strict=True))
    # attention data-parallel ranks with shared experts
    plan = {"tp": row["tp"], "ep": row["ep"], "attention_dp": row["dp"]}
    load = {name: row[name] for name in ("isl", "osl", "concurrency", "num_requests")}
    named = {"model": point_fields["model"], "system": point_fields["system"], "engine": "vllm"}
    traffic, scenario = split_fields(
        named | plan | load | {"prompt_text": point_fields["prompt_text"]}
    )
    resolved = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, resolved, known)
    outcome = run_traffic(ready, resolved, Control())
    found = summarize(resolved.requests, outcome, {}, ready.seen)
    row["network"], row["system"] = point_fields["model"], point_fields["system"]
    row["plan"] = f"tp{row['tp']} ep{row['ep']} dp{row['dp']}"
    for name in FIGURES:
        whole = found[f"{name}_s"]
        row[f"{name}_s"] = whole if name == "makespan" else whole["p50"]
        row[f"{name}_measured_s"] = measured[name]
        row[f"{name}_error"] = row[f"{name}_s"] / measured[name] - 1.0
    return row


def summarize_points(rows: Sequence[Row]) -> list[Row]:
    """Return error statistics of the points by plan, and over all.

    Args:
        rows: From `compare_points`.
    """
    groups = {"all": list(rows)}
    for row in rows:
        groups.setdefault(row["plan"], []).append(row)
    return [{"plan": plan} | _statistics(members) for plan, members in groups.items() if members]


def _statistics(rows: Sequence[Row]) -> Row:
    found: Row = {"rows": len(rows)}
    for name in FIGURES:
        predicted_s = np.array([row[f"{name}_s"] for row in rows])
        measured_s = np.array([row[f"{name}_measured_s"] for row in rows])
        errors = error_statistics(predicted_s, measured_s)
        found |= {f"{name}_median_error": errors.median_error, f"{name}_bias": errors.bias}
    return found


def contradicted(
    points: Sequence[Row], rows: Sequence[Row], runs: Sequence[ServingRun]
) -> list[Row]:
    """Return points with dated production runs of the same model, plan, prompts and load.

    Args:
        points: From `compare_points`.
        rows: From `simulate_runs`.
        runs: The production runs of these rows.
    """
    dates = {run.id: run.date for run in runs}
    found = []
    for point in points:
        for row in rows:
            same = all(row[name] == point[name] for name in MATCHED_COLUMNS)
            if same and row["attention_dp"] == point["dp"]:
                found.append(
                    {
                        "isl": row["isl"],
                        "concurrency": row["concurrency"],
                        "date": dates[row["id"]],
                        "ttft_run_s": row["ttft_measured_s"],
                        "ttft_point_s": point["ttft_measured_s"],
                        "ttft_s": row["ttft_s"],
                        "tpot_run_s": row["tpot_measured_s"],
                        "tpot_point_s": point["tpot_measured_s"],
                        "tpot_s": row["tpot_s"],
                    }
                )
    return found
