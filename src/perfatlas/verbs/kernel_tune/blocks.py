"""What `kernel tune` shows: the default first, then the designs that are worth measuring."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report import charts, pages
from perfatlas.report.text import format_value, printed_results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Columns = dict[str, str | Callable[[Mapping[str, Any]], str]]

VALUES: Final = ("time_s", "default_time_s", "gain", "library_time_s", "expected_regret")
FIRST: Final = 5  # designs of a brief answer
MOST_SHAPES: Final = 9
BRIEF: Final = (
    *("time_s", "measured_s", "default_time_s", "library_time_s", "gain", "gain_if_measured"),
    *("limiting_unit", "next_unit", "legal_designs", "expected_regret", "regret_of_8"),
)
LOSS: Final = 1.02
TITLES: Final = {  # of sizes of designs
    "tile_m": "m",
    "tile_n": "n",
    "tile_k": "k",
    **{name: name for name in ("group", "splits", "programs", "roles", "warps", "stages")},
}


def tune_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return the designs of a kernel, or of all shapes."""
    results = answer["results"]
    several = "shapes" in results
    shown = {name: value for name, value in results.items() if not isinstance(value, list)}
    sections: list[pages.Section] = []
    if several:
        sections += _shapes(results["shapes"])
    sections += _designs(results["designs"], several=several)
    rejected: Columns = {"designs": lambda row: f"{row['designs']:,}", "rejected for": "reason"}
    table = pages.Table.of(results["rejected_designs"], rejected, ("rejected for",))
    sections.append(pages.Section(title="Rejected designs", blocks=[table], is_detail=True))
    few = printed_results({name: value for name, value in shown.items() if name in BRIEF})
    return pages.answer_page(
        answer,
        [
            pages.Section(
                blocks=[pages.Values(all=printed_results(shown), brief=few)], on="terminal"
            ),
            *sections,
        ],
        lines=[] if several else _summary(results),
        values=pages.key_values(results, VALUES, short=True),
        reproduce=reproduce,
        method="model of main loops, fitted to shipped configurations",
        covered=answer["evidence"]["assumptions"][0],
    )


def _summary(results: Mapping[str, Any]) -> list[str]:
    """Return what the framework takes, and what to do, in lines."""
    lines = []
    if results["default_time_s"] is not None:
        lines.append(
            f"default: {results['default_design']} ({results['default_from']}):"
            f" {_time(results['default_time_s'])}"
        )
    lines.append(f"first design: {results['design']}: {_time(results['time_s'])}")
    lines.append(results["tuning_advice"])
    return lines


def _shapes(rows: Sequence[Mapping[str, Any]]) -> list[pages.Section]:
    """Return all shapes, or in a brief text those that take longest."""
    times: Columns = {
        "shape": "shape",
        "default": lambda row: _time(row["default_time_s"]),
        "first": lambda row: _time(row["measured_s"] or row["time_s"]),
        "libraries": lambda row: _time(row["library_time_s"]),
        "gain": lambda row: "" if row["gain"] is None else f"{row['gain']:.2f}x",
    }
    columns: Columns = {
        **times,
        "kernel": "kernel",
        "first design": "design",
        "limiting unit": "limiting_unit",
        "advice": "tuning_advice",
    }
    texts = ("shape", "kernel", "first design", "limiting unit", "advice")
    full = pages.Table.of(rows, columns, texts)
    by_time = sorted(rows, key=lambda row: -row.get("count", 1) * row["time_s"])
    few = pages.Table.of(by_time[:MOST_SHAPES], times, ("shape",))
    left = len(rows) - MOST_SHAPES
    more = [f"{counted(left, 'more shape')}: --verbose"] if left > 0 else []
    return [
        pages.Section(title="Shapes", blocks=[full], on="page"),
        pages.Section(blocks=[few, *more], on="brief"),
        pages.Section(blocks=[full], on="terminal", is_detail=True),
    ]


def _designs(rows: Sequence[Mapping[str, Any]], *, several: bool) -> list[pages.Section]:
    sizes = [name for name in TITLES if rows and any(name in row for row in rows)]
    columns: Columns = {"shape": "shape"} if several else {}
    columns["rank"] = lambda row: f"{row['rank']}{' (default)' * row['default']}"
    for name in sizes:
        columns[TITLES[name]] = partial(_size, name)
    columns |= {
        "time": lambda row: _time(row["time_s"]),
        "measured": lambda row: _time(row["measured_s"]),
        "limiting unit": "limiting_unit",
        "compiler loss": lambda row: _loss(row["compiler_loss"]),
    }
    if not any(row["measured_s"] for row in rows):
        del columns["measured"]
    if not any(_loss(row["compiler_loss"]) for row in rows):
        del columns["compiler loss"]
    texts = ("shape", "rank", "limiting unit")
    full = pages.Table.of(rows, columns, texts)
    bars = [
        charts.Bar(f"design {row['rank']}", row["time_s"], _time(row["time_s"]))
        for row in rows[:16]
    ]
    chart = charts.BarChart(bars, charts.Axis("time", "s"))
    if several:
        return [pages.Section(title="Designs", blocks=[full], is_detail=True)]
    first = pages.Table.of(rows[:FIRST], columns, texts)
    return [
        pages.Section.charted("Designs", chart, full, on="page"),
        pages.Section(blocks=[first], on="brief"),
        pages.Section(blocks=[full], on="terminal", is_detail=True),
    ]


def _loss(ratio: float | None) -> str:
    """Return the time of a design as compiled over that as designed, where it is longer."""
    return f"{ratio:.2f}x" if ratio and ratio > LOSS else ""


def _size(name: str, row: Mapping[str, Any]) -> str:
    return str(row.get(name, ""))


def _time(value: float | None) -> str:
    return "" if value is None else format_value("time_s", value)
