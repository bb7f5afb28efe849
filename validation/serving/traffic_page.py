"""The page of simulated and measured traffic, generated from the comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import MissingDependencyError
from validation.scoring import data_text, table
from validation.serving.pools import ABOUT
from validation.serving.traffic import PARTS, validate_traffic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Row = dict[str, Any]
REGENERATE: Final = "python -m validation traffic --page validation/pages/traffic.md"


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
    sizes = {name: _statistics(found[name], about) for name, about in PARTS.items()}
    return data_text("traffic_page.md").format(
        regenerate=REGENERATE,
        minutes=f"{found['run_time_s'] / 60:.0f}",
        runs=f"{found['simulated']:,}",
        left_out=f"{found['left_out_rows']:,}",
        disaggregated=found["disaggregated"],
        refused=len(found["not_simulated"]),
        recorded=_recorded(found["recorded"]),
        goals=_goals(
            [
                row
                for part in (found, found["scenario_only"], found["pools"])
                for row in part["goals"]
            ]
        ),
        scenario_totals=_statistics(found["scenario_only"]["totals"], ("models",)),
        scenario_by_engine=_statistics(found["scenario_only"]["by_engine"], ("backend",)),
        reasons=table(
            ["reason", "rows", ""],
            [[row["reason"], f"{row['rows']:,}", row["note"]] for row in found["reasons"]],
        ),
        unsimulated=_unsimulated(found["unsimulated"]),
        **sizes,
        **_pools(found["pools"]),
    )


def _pools(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts on two-pool runs, by placeholder."""
    about = {"totals": ("models",)} | ABOUT
    pools = {f"pool_{name}": _statistics(found[name], keys) for name, keys in about.items()}
    return pools | {
        "pool_runs": f"{found['simulated']:,}",
        "pool_left_out": f"{found['left_out_rows']:,}",
        "pool_refused": str(len(found["not_simulated"])),
        "pool_reasons": "\n".join(f"- `{row['id']}`: {row['reason']}" for row in found["left_out"]),
    }


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
    headings = ["run", "figure", "measured", "simulated", "error", "goal"]
    lines = [
        [
            row["run"],
            row["figure"],
            f"{row['measured_s']:.4g} s",
            f"{row['predicted_s']:.4g} s",
            _percent(row["error"]),
            f"{_percent(row['goal_error'])}: {row['goal_met']}",
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


def _unsimulated(options: Mapping[str, str]) -> str:
    lines = [f"- {launch}: {option}" for launch, option in options.items() if option]
    return "\n".join(lines) or "None."
