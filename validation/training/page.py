"""The page of predicted and published training steps, generated from the comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from validation.scoring import EMPTY_CELL, SCORES, WIDTHS, data_text, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TITLES: Final = {
    "totals": "All rows",
    "splits": "Rows that a split leaves out of the fit",
    "by_source": "By source",
    "by_gpu": "By source and GPU",
    "by_generation": "A GPU generation left out of the fit, by source, GPU and kind of model",
}
# Fitted numbers: field, heading, factor to the unit of the heading.
FITTED: Final = (
    ("efficiency_compute", "speed of kernels", 1.0),
    ("efficiency_routed_rows", "on routed rows", 1.0),
    ("host_s_per_moe_layer", "host per MoE layer [ms]", 1e3),
)
ERRORS: Final = ("mape", "median_error", "bias", "inside_90")
HEADINGS: Final = ("rows", "MAPE", "median", "bias", "in 90%", "high/low", *SCORES.values())


def write_training_page(path: Path, found: Mapping[str, Any]) -> None:
    """Write the page.

    Args:
        path: The Markdown file.
        found: From `validate_training`.

    Raises:
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    write_atomic(path, page_text(found))


def page_text(found: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        found: From `validate_training`.
    """
    parts = [data_text("training_page.md").rstrip()]
    parts += [f"## {title}\n\n{_errors(found[name])}" for name, title in TITLES.items()]
    parts.append(_fits(found["generation_fits"]))
    parts.append("## An engine left out\n\n" + _unseen(found["unseen_engine"]))
    if found["calculon"]:
        parts.append("## Beside Calculon\n\n" + _calculon(found["calculon"]))
    parts.append("## A trace and the run that it is part of\n\n" + _trace(found["trace"]))
    refused = [[row["source"], row["reason"], f"{row['rows']}"] for row in found["refused"]]
    parts.append("## Refused rows\n\n" + table(["source", "reason", "rows"], refused))
    parts.append("## Peak memory\n\n" + _memory(found["memory"]))
    return "\n\n".join(parts) + "\n"


def _fits(fits: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers that are fitted without a generation; nothing is fitted to 0 runs."""
    cells = [
        [
            fit["generation"],
            fit["engine"],
            f"{fit['rows']}",
            *(
                f"{factor * fit[name]:.3g}" if fit["rows"] and name in fit else "-"
                for name, _, factor in FITTED
            ),
        ]
        for fit in fits
    ]
    headings = ["left out", "engine", "fitted runs", *(heading for _, heading, _ in FITTED)]
    return table(headings, cells)


def _unseen(found: Mapping[str, Any]) -> str:
    """Return the errors of engines predicted with numbers of the others, and the interval."""
    cells = [
        [row["engine"], f"{row['rows']}", f"{row['mean']:+.3f}", f"{row['deviation']:.3f}"]
        for row in found["rows"]
    ]
    headings = ["engine", "fitted dense runs", "mean ln(published/predicted)", "deviation"]
    ends = [
        [kind, *(f"{found[f'error_{end}{ending}']:+.3f}" for end in ("low", "high"))]
        for kind, ending in (("dense", ""), ("MoE", "_moe"))
    ]
    interval = table(["a further engine", "lower end of ln", "upper end of ln"], ends)
    return f"{table(headings, cells)}\n\n{interval}"


def _calculon(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            row["model"],
            row["recompute"],
            *(f"{row[name]:.2f}" for name in ("measured_s", "predicted_s", "calculon_s")),
            *(f"{row[name]:+.1%}" for name in ("error", "calculon_error")),
        ]
        for row in rows
    ]
    means = [
        f"{sum(abs(row[name]) for row in rows) / len(rows):.1%}"
        for name in ("error", "calculon_error")
    ]
    cells.append(["mean absolute error", *[""] * 4, *means])
    steps = [f"{who} [s]" for who in ("published", "perfatlas", "Calculon")]
    return table(["model", "recompute", *steps, "error", "error of Calculon"], cells)


def _trace(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            row["figure"],
            f"{row['published']:,.4g}",
            f"{row['predicted']:,.4g}",
            f"{row['error']:+.1%}",
            "yes" if row["fitted"] else "no",
        ]
        for row in rows
    ]
    return table(["DeepSeek-V3, H800", "published", "predicted", "error", "fitted"], cells)


def _errors(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in rows[0] if name not in ("rows", "width", *ERRORS, *SCORES)]
    cells = [
        [
            *(str(row[name]) or "-" for name in names),
            f"{row['rows']}",
            *(f"{_shown(name, row[name]):.1%}" for name in ERRORS),
            f"{row['width']:.2f}",
            *(EMPTY_CELL if row[name] is None else _score(name, row[name]) for name in SCORES),
        ]
        for row in rows
    ]
    return table([*("" if name == "what" else name for name in names), *HEADINGS], cells)


def _score(name: str, value: float) -> str:
    return f"{value:.2f}" if name in WIDTHS else f"{value:.1%}"


def _shown(name: str, value: float) -> float:
    """Return an error as a share; a bias is a mean logarithm."""
    return math.expm1(value) if name == "bias" else value


def _memory(rows: Sequence[Mapping[str, Any]]) -> str:
    halves = [
        [name, f"{len(errors)}", f"{sum(map(abs, errors)) / len(errors):.1%}"]
        for name, fitted in (("fitted", True), ("held out", False))
        if (errors := _peak_errors(rows, fitted=fitted))
    ]
    return table(["peaks", "rows", "MAPE"], halves)


def _peak_errors(rows: Sequence[Mapping[str, Any]], *, fitted: bool) -> list[float]:
    return [
        row["predicted_peak_bytes"] / row["peak_bytes"] - 1.0
        for row in rows
        if row["peak_fitted"] is fitted
    ]
