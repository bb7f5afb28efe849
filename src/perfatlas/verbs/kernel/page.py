"""HTML page of `kernel design`: the time, a timeline of the main loop, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import CLEAR, COLOURS, Axis, Bar, BarChart, BarPart, StackedBars
from perfatlas.report.pages import Section, Table, Value, answer_page
from perfatlas.report.text import format_value, interval_text, label_of, share_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

VALUES: Final = ("time_s", "limiting_unit", "flop_per_s", "power_w", "energy_j", "kernel_time_s")
WORKS: Final = ("scores", "values", "softmax", "product", "sum")  # by color


def design_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return a kernel under design as an HTML page."""
    results = answer["results"]
    sizes = " x ".join(str(results[name]) for name in ("tile_m", "tile_n", "tile_k"))
    return answer_page(
        answer,
        title=f"{answer['command']} on {answer['scenario']['system']}",
        subtitle=f"tile of {sizes}, {results['stages']} stages, {results['warpgroups']} warpgroups",
        values=[
            Value(
                label=label_of(name, short=True),
                value=format_value(name, results[name]),
                interval=interval_text(results, name) if f"{name}_low" in results else "",
            )
            for name in VALUES
            if name in results
        ],
        sections=[_timeline(results), _units(results["units"]), _changes(results["what_if"])],
        reproduce=reproduce,
    )


def _timeline(results: Mapping[str, Any]) -> Section:
    """Return when each unit works in one iteration, as bars of waiting and working."""
    rows = results["timeline"]
    units = list(dict.fromkeys(row["unit"] for row in rows))
    parts = []
    for at, unit in enumerate(units):
        end = 0.0
        own = (row for row in rows if row["unit"] == unit)
        for row in sorted(own, key=lambda row: float(row["start_cycles"])):
            group = "" if row["warpgroup"] is None else f", warpgroup {row['warpgroup']}"
            text = f"block {row['block']}{group}"
            colour = COLOURS[WORKS.index(row["work"])]
            for name, cycles, shade in (
                ("waits", row["start_cycles"] - end, CLEAR),
                (row["work"], row["end_cycles"] - row["start_cycles"], colour),
            ):
                values, texts = [0.0] * len(units), [""] * len(units)
                values[at], texts[at] = cycles, text
                parts.append(BarPart(name, values, texts, shade))
            end = row["end_cycles"]
    chart = StackedBars(units, parts, Axis("cycles since the iteration began"))
    works = [work for work in WORKS if any(row["work"] == work for row in rows)]
    table = Table(
        head=("work", "cycles of all units"),
        rows=[[work, f"{_cycles(rows, work):,.0f}"] for work in works],
        colours=[COLOURS[WORKS.index(work)] for work in works],
    )
    return Section.charted("One iteration of the main loop", chart, table)


def _cycles(rows: Sequence[Mapping[str, Any]], work: str) -> float:
    own = (row["end_cycles"] - row["start_cycles"] for row in rows if row["work"] == work)
    return float(sum(own))


def _units(rows: Sequence[Mapping[str, Any]]) -> Section:
    columns = {
        "unit": lambda row: str(row["unit"]),
        "cycles of a tile": lambda row: f"{row['cycles']:,.0f}",
        "share of the time": lambda row: share_text(row["share"]),
    }
    return Section(title="Units", blocks=[Table.of(rows, columns, texts=("unit",))])


def _changes(rows: Sequence[Mapping[str, Any]]) -> Section:
    bars = [
        Bar(row["change"], row["speedup"], f"{row['speedup']:.2f}x")
        for row in rows
        if row["speedup"]
    ]
    columns = {
        "what if": lambda row: str(row["change"]),
        "time": lambda row: format_value("time_s", row["time_s"]),
        "limiting unit": lambda row: row["limiting_unit"] or f"impossible: {row['reason']}",
    }
    table = Table.of(rows, columns, texts=("what if", "limiting unit"))
    return Section.charted("What if: speedup", BarChart(bars, Axis("speedup")), table)
