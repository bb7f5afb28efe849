"""HTML page of a collective: its time and bus bandwidth by message size and algorithm."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import COLOURS, GREY, RED, Axis, Line, LineChart
from perfatlas.report.pages import Section, results_page
from perfatlas.report.text import limits_of
from perfatlas.verbs.collective.answer import collective_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

SIZES: Final = tuple(2**power for power in range(10, 33))  # 1 KiB to 4 GiB
TIME: Final = "time_s"
BANDWIDTH: Final = "bus_bandwidth_bytes_per_s"
BYTES: Final = Axis("message size", "B", log=True)


def collective_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return a collective as an HTML page."""
    scenario, results = answer["scenario"], answer["results"]
    sizes = sorted({*SIZES, int(scenario["bytes"])})
    named = {name: value for name, value in scenario.items() if value is not None}
    table = {name: [value] * len(sizes) for name, value in named.items()} | {"bytes": sizes}
    found = collective_columns(table)
    rows = [
        {"bytes": size} | {name: cells[index] for name, cells in found.items()}
        for index, size in enumerate(sizes)
        if found[TIME][index]
    ]
    sections = [
        Section.charted("Time by message size", _chart(rows, results, scenario, TIME)),
        Section.charted(
            "Bus bandwidth by message size", _chart(rows, results, scenario, BANDWIDTH)
        ),
    ]
    return results_page(answer, sections=sections if rows else (), reproduce=reproduce)


def _chart(
    rows: Sequence[Mapping[str, Any]],
    results: Mapping[str, Any],
    scenario: Mapping[str, Any],
    name: str,
) -> LineChart:
    """Return a metric by message size, a line for each algorithm, and the asked message."""
    scaled = [_scaled(row) for row in rows]
    algorithms = dict.fromkeys(str(row["algorithm"]) for row in scaled)
    colours = dict(zip(algorithms, (*COLOURS, *[GREY] * len(algorithms)), strict=False))
    lines = [
        Line.of(list(run), "bytes", name, key, colours[key])
        for key, run in groupby(scaled, lambda row: str(row["algorithm"]))
    ]
    limit = limits_of(rows[0]).get(name, "")
    title = "time" if name == TIME else "bus bandwidth"
    axis = Axis(
        f"{title}, {limit}" if limit else title, "s" if name == TIME else "B/s", log=name == TIME
    )
    asked = _scaled(results)
    mark = Line("asked", [scenario["bytes"]], [asked[name]], RED, "mark")
    return LineChart([*lines, mark], BYTES, axis)


def _scaled(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the interval of its bus bandwidth that follows from its time."""
    whole = row[BANDWIDTH]
    ends = (("low", row.get("time_s_high")), ("high", row.get("time_s_low")))
    found = {
        f"{BANDWIDTH}_{end}": whole * row[TIME] / time_s if time_s else None for end, time_s in ends
    }
    return {**row, BANDWIDTH: whole, **found}
