"""`python -m validation agentic`, and its page."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, WrittenFile
from perfatlas.files import check_writable, write_atomic
from validation.scoring import data_text, print_results, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]
REGENERATE: Final = "python -m validation agentic --page validation/pages/agentic.md"
SCORES: Final = {
    "points": "points",
    "figures": "figures",
    "median_error": "median error",
    "median_signed_error": "median, signed",
    "inside_90": "in 90%",
}
COLUMNS: Final = {
    "totals": {"kind": "", **SCORES},
    "by_run": {"run": "run", "kind": "", **SCORES},
    "cliff": {
        "sessions": "sessions",
        "context_tokens": "mean context",
        "live_tokens": "live tokens",
        "hit": "hit",
        "published_hit": "published",
        "total_tput_gpu": "tokens/s/GPU",
        "published_tput_gpu": "published",
    },
    "experiments": {
        "point": "point",
        "about": "change",
        "metric": "figure",
        "published": "published",
        "asked": "predicted",
        "changed": "with the change",
    },
    "rows": {
        "run": "run",
        "point": "point",
        "metric": "figure",
        "unit": "unit",
        "published": "published",
        "predicted": "predicted",
        "low": "low",
        "high": "high",
        "error": "error",
        "inside_90": "in 90%",
    },
    "refused": {"run": "run", "point": "point", "reason": "reason"},
    "left_out": {"run": "run", "points": "points", "reason": "reason"},
}
TITLES: Final = {
    "totals": "all runs",
    "by_run": "by run",
    "cliff": "hit rate by live sessions",
    "experiments": "one change at a time",
    "rows": "figures",
    "refused": "without a prediction",
    "left_out": "left out",
}
PERCENT: Final = ("median_error", "median_signed_error", "inside_90", "error")


def agentic(*, json: Annotated[bool, SWITCH] = False, page: WrittenFile | None = None) -> int:
    """Compare simulated agent traffic with published runs; takes minutes.

    Args:
        json: Print one JSON object.
        page: Write this Markdown page.
    """
    from validation.serving.agentic import validate_agentic

    if page is not None:
        check_writable(page)
    results = validate_agentic(_progress)
    if page is not None:
        write_atomic(page, page_text(results))
        return 0
    shown = results if json else results | {name: _cells(results[name], name) for name in COLUMNS}
    return print_results("agentic", shown, COLUMNS, TITLES, json=json)


def page_text(results: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        results: From `validate_agentic`.
    """
    tables = {
        name: table(
            list(columns.values()),
            [[row[column] for column in columns] for row in _cells(results[name], name)],
        )
        for name, columns in COLUMNS.items()
    }
    assumed = "\n".join(f"- {run}: {text}" for run, text in results["assumed"].items())
    return data_text("agentic_page.md").format(regenerate=REGENERATE, assumed=assumed, **tables)


def _cells(rows: Sequence[Row], name: str) -> list[dict[str, str]]:
    """Return rows as text."""
    if name == "experiments":
        rows = [row for one in rows for row in _changes(one)]
    return [{column: _text(column, row[column]) for column in COLUMNS[name]} for row in rows]


def _changes(one: Row) -> list[Row]:
    """Return a row per figure of an experiment."""
    shared = {name: one[name] for name in ("point", "about")}
    shared["point"] = f"{one['run']}, {one['point']}"
    if "refused" in one:
        nothing = dict.fromkeys(("metric", "published", "asked"))
        return [shared | nothing | {"changed": one["refused"]}]
    return [
        shared
        | {
            "metric": metric,
            "published": one["published"].get(metric),
            "asked": one["asked"][metric][0],
            "changed": one["changed"][metric][0],
        }
        for metric in one["metrics"]
    ]


def _text(column: str, value: Any) -> str:  # noqa: ANN401 - a figure or a name
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.replace("\n", " ")
    if column in PERCENT:
        return f"{100 * value:.0f}%" if column != "error" else f"{100 * value:+.0f}%"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def _progress(name: str) -> None:
    sys.stderr.write(f"{name}\n")
