"""What `collective` shows: its numbers, and its time and bus bandwidth by message size."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import format_quantity
from perfatlas.report import charts, pages
from perfatlas.report.text import limits_of
from perfatlas.verbs.collective.answer import collective_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES: Final = tuple(2**power for power in range(10, 33))  # 1 KiB to 4 GiB
TIME: Final = "time_s"
BANDWIDTH: Final = "bus_bandwidth_bytes_per_s"
BYTES: Final = charts.Axis("message size", "B", log=True)
CHARTS: Final = (
    ("Time by message size", TIME, charts.Axis("time", "s", log=True)),
    ("Bus bandwidth by message size", BANDWIDTH, charts.Axis("bus bandwidth", "B/s")),
)


def collective_page(answer: Mapping[str, Any], *, reproduce: str) -> pages.Page:
    """Return a collective: on a page over message sizes, a line for each algorithm."""
    uses = answer["results"].get("link_use") or ()
    rows = [
        [
            str(use["tier"]).replace("_", " "),
            f"{use['count']:,}",
            format_quantity(use["bandwidth_bytes_per_s"], "B/s"),
            f"{use['mean_share']:.0%}",
            f"{use['max_share']:.0%}",
        ]
        for use in uses
    ]
    head = ("tier", "links", "bandwidth", "mean use", "highest use")
    table = pages.Section(title="Links between nodes", blocks=[pages.Table(head=head, rows=rows)])
    sections = [table] if rows else []
    return pages.results_page(
        answer, *sections, on_page=lambda: _by_size(answer), reproduce=reproduce
    )


def _by_size(answer: Mapping[str, Any]) -> list[pages.Section]:
    scenario = {name: value for name, value in answer["scenario"].items() if value is not None}
    sizes = sorted({*SIZES, int(scenario["bytes"])})
    table = {name: [value] * len(sizes) for name, value in scenario.items()} | {"bytes": sizes}
    found = {"bytes": sizes, **collective_columns(table)}
    cells = zip(*found.values(), strict=True)
    rows = [_scaled(row) for one in cells if (row := dict(zip(found, one, strict=True)))[TIME]]
    algorithms = dict.fromkeys(str(row["algorithm"]) for row in rows)
    greys = (charts.GREY,) * len(algorithms)
    colours = dict(zip(algorithms, (*charts.COLOURS, *greys), strict=False))
    sections = []
    for title, name, axis in CHARTS if rows else ():
        lines = [
            charts.Line.of(list(run), "bytes", name, key, colours[key])
            for key, run in groupby(rows, lambda row: str(row["algorithm"]))
        ]
        asked = _scaled(answer["results"])[name]
        mark = charts.Line("asked", [scenario["bytes"]], [asked], charts.RED, "mark")
        limit = limits_of(rows[0]).get(name, "")
        up = axis._replace(title=f"{axis.title}, {limit}") if limit else axis
        chart = charts.LineChart([*lines, mark], BYTES, up)
        sections.append(pages.Section.charted(title, chart))
    return sections


def _scaled(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the interval of its bus bandwidth that follows from its time."""
    ends = (("low", row.get("time_s_high")), ("high", row.get("time_s_low")))
    found = {
        f"{BANDWIDTH}_{end}": row[BANDWIDTH] * row[TIME] / time_s if time_s else None
        for end, time_s in ends
    }
    return {**row, **found}
