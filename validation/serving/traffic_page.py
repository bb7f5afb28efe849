"""The page of simulated and measured traffic, generated from the comparison."""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import MissingDependencyError
from validation.runs import serving_rules
from validation.scoring import table
from validation.serving.pools import ABOUT
from validation.serving.traffic import validate_traffic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Row = dict[str, Any]
REGENERATE: Final = "python -m validation traffic --page validation/pages/traffic.md"
PARTS: Final = {
    "totals": ("models",),
    "by_engine": ("backend",),
    "by_source": ("kind",),
    "by_model": ("network",),
    "by_system": ("system",),
    "by_concurrency": ("concurrency",),
    "cells": ("network", "precision", "backend", "system"),
    "by_launch": ("launch",),
}


def write_traffic_page(path: Path) -> dict[str, Any]:
    """Compare everything, write the page, and return the result.

    Args:
        path: The Markdown file.

    Raises:
        MissingDependencyError: Some measurements are missing; the page needs all.
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    found = validate_traffic()
    if found["missing"]:
        raise MissingDependencyError(
            "the page needs all measurements: " + "; ".join(found["missing"])
        )
    write_atomic(path, page_text(found))
    return found


def page_text(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: From `validate_traffic`, complete.
    """
    text = resources.files("validation").joinpath("data/traffic_page.md")
    rules = serving_rules()
    sizes = {name: _statistics(found[name], about) for name, about in PARTS.items()}
    launches = {launch.name: launch for launch in rules.launches}
    return text.read_text("utf-8").format(
        regenerate=REGENERATE,
        minutes=f"{found['run_time_s'] / 60:.0f}",
        runs=f"{found['simulated']:,}",
        left_out=f"{found['left_out_rows']:,}",
        disaggregated=found["disaggregated"],
        refused=len(found["not_simulated"]),
        recorded=_recorded(found["recorded"]),
        factors=_factors(found["recorded"]),
        point_totals=_point_totals(found["point_totals"]),
        points=_points(found["points"]),
        contradicted=_contradicted(found["contradicted"]),
        goals=_goals(
            [
                row
                for part in (found, found["scenario_only"], found["pools"])
                for row in part["goals"]
            ]
            + found["point_goals"]
        ),
        scenario_totals=_statistics(found["scenario_only"]["totals"], ("models",)),
        scenario_by_engine=_statistics(found["scenario_only"]["by_engine"], ("backend",)),
        worst=_worst(found["worst"]),
        reasons=table(
            ["reason", "rows", ""],
            [[row["reason"], f"{row['rows']:,}", row["note"]] for row in found["reasons"]],
        ),
        launches="\n".join(
            f"- **{row['launch']}.** {launches[row['launch']].source}"
            for row in found["by_launch"]
            if row["launch"] in launches
        ),
        unsimulated=_unsimulated(found["by_launch"]),
        **sizes,
        **_pools(found["pools"]),
    )


def _pools(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts on two-pool runs, by placeholder."""
    parts = ("totals", "by_split", "by_engine", "by_model", "by_system", "by_lengths", "cells")
    about = {"totals": ("models",)} | ABOUT
    pools = {f"pool_{name}": _statistics(found[name], about[name]) for name in parts}
    launches = [f"- **{row['launch']}.** {row['source']}" for row in found["by_launch"]]
    return pools | {
        "pool_runs": f"{found['simulated']:,}",
        "pool_left_out": f"{found['left_out_rows']:,}",
        "pool_refused": str(len(found["not_simulated"])),
        "pool_reasons": "\n".join(f"- `{row['id']}`: {row['reason']}" for row in found["left_out"]),
        "pool_launches": "\n".join(text for text in launches if not text.endswith("** ")),
        "pool_worst": _pool_worst(found["worst"]),
    }


def _pool_worst(rows: Sequence[Row]) -> str:
    lines = [
        [
            row["id"],
            row["pools"],
            f"{1e3 * row['ttft_measured_s']:,.0f} ms",
            f"{1e3 * row['ttft_s']:,.0f} ms",
            f"{1e3 * row['tpot_measured_s']:.1f} ms",
            f"{1e3 * row['tpot_s']:.1f} ms",
        ]
        for row in rows
    ]
    return table(["run", "pools", "TTFT", "simulated", "TPOT", "simulated"], lines)


def _figure(name: str, value: float | None) -> str:
    """Return an error in percent; a bias, a mean of logarithms, as the factor less one."""
    return _percent(math.expm1(value) if name == "bias" and value is not None else value)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _statistics(rows: Sequence[Row], about: tuple[str, ...]) -> str:
    headings = ["", "runs", "TTFT median", "MAPE", "bias", "TPOT median", "MAPE", "bias"]
    figures = ("median_error", "mape", "bias")
    lines = [
        [
            " ".join(str(row[name]) for name in about),
            f"{row['rows']:,}",
            *(
                _figure(figure, row[f"{name}_{figure}"])
                for name in ("ttft", "tpot")
                for figure in figures
            ),
        ]
        for row in rows
    ]
    return table(headings, lines)


def _recorded(rows: Sequence[Row]) -> str:
    headings = ["run", "figure", "measured", "simulated", "error", "goal", "one factor", "goal"]
    lines = [
        [
            row["run"],
            row["figure"],
            f"{row['measured_s']:.4g} s",
            f"{row['predicted_s']:.4g} s",
            _percent(row["error"]),
            f"{_percent(row['goal_error'])}: {row['goal_met']}",
            _percent(row["scaled_error"]),
            f"{_percent(row['scaled_goal_error'])}: {row['scaled_goal_met']}",
        ]
        for row in rows
    ]
    return table(headings, lines)


def _factors(rows: Sequence[Row]) -> str:
    factors = {row["run"]: row["scaled_factor"] for row in rows}
    return ", ".join(f"{run} {factor:.3f}" for run, factor in factors.items())


def _point_totals(rows: Sequence[Row]) -> str:
    figures = ("ttft", "tpot", "request_latency", "makespan")
    headings = ["plan", "points", *(head for name in figures for head in (name, "bias"))]
    lines = [
        [
            row["plan"],
            str(row["rows"]),
            *(
                _figure(figure, row[f"{name}_{figure}"])
                for name in figures
                for figure in ("median_error", "bias")
            ),
        ]
        for row in rows
    ]
    return table(headings, lines)


def _points(rows: Sequence[Row]) -> str:
    headings = ["plan", "in", "requests", "TTFT", "simulated", "TPOT", "simulated", "makespan"]
    lines = [
        [
            row["plan"],
            f"{row['isl']:,}",
            str(row["concurrency"]),
            f"{1e3 * row['ttft_measured_s']:,.0f} ms",
            f"{1e3 * row['ttft_s']:,.0f} ms",
            f"{1e3 * row['tpot_measured_s']:.1f} ms",
            f"{1e3 * row['tpot_s']:.1f} ms",
            _percent(row["makespan_error"]),
        ]
        for row in rows
    ]
    return table(headings, lines)


def _contradicted(rows: Sequence[Row]) -> str:
    headings = ["in", "requests", "day", "TTFT run", "point", "simulated", "TPOT run", "point"]
    lines = [
        [
            f"{row['isl']:,}",
            str(row["concurrency"]),
            row["date"],
            f"{1e3 * row['ttft_run_s']:,.0f} ms",
            f"{1e3 * row['ttft_point_s']:,.0f} ms",
            f"{1e3 * row['ttft_s']:,.0f} ms",
            f"{1e3 * row['tpot_run_s']:.1f} ms",
            f"{1e3 * row['tpot_point_s']:.1f} ms",
        ]
        for row in rows
    ]
    return table(headings, lines)


def _goals(rows: Sequence[Row]) -> str:
    lines = [
        [
            row["models"],
            row["figure"],
            _percent(row["reached_error"]),
            _percent(row["goal_error"]),
            row["goal_met"],
        ]
        for row in rows
    ]
    return table(["models", "figure", "reached", "goal", "met"], lines)


def _worst(rows: Sequence[Row]) -> str:
    lines = [
        [
            row["id"],
            row["launch"],
            f"{1e3 * row['ttft_measured_s']:,.0f} ms",
            f"{1e3 * row['ttft_s']:,.0f} ms",
            _percent(row["tpot_error"]),
        ]
        for row in rows
    ]
    return table(["run", "launch", "TTFT", "simulated", "TPOT error"], lines)


def _unsimulated(rows: Sequence[Row]) -> str:
    lines = [f"- {row['launch']}: {row['unsimulated']}" for row in rows if row["unsimulated"]]
    return "\n".join(lines) or "None."
