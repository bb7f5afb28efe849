"""HTML pages of frontiers: throughput against speed, and energy against latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import BLUE, ORANGE, Axis, Line, LineChart
from perfatlas.report.pages import (
    Chart,
    Section,
    Table,
    Value,
    answer_page,
)
from perfatlas.report.text import (
    format_value,
    headline,
    label_of,
    limits_of,
    subheadline,
)
from perfatlas.verbs.estimate.text import marked_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]

ENERGY: Final = "energy_per_output_token_j"
SPEED: Final = "output_tokens_per_s_per_user"
RATE: Final = "output_tokens_per_s_per_gpu"
LATENCY: Final = "tpot_s"
COLUMNS: Final = (LATENCY, "ttft_s", RATE, "power_w", ENERGY)
TEXTS: Final = {"decode_bound": "decode bound", "prefill_bound": "prefill bound", "tier": "tier"}
AXES: Final = {
    LATENCY: Axis("time per output token", unit="s"),
    "clock_ratio": Axis("clock over the sustained clock"),
    "power_cap_w": Axis("power limit of a GPU [W]"),
}
JOULES: Final = Axis("energy per output token [J]")
WATTS: Final = Axis("power of a GPU [W]")


def batch_frontier_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return throughput against speed by batch as an HTML page."""
    rows: Rows = answer["results"]["frontier"]
    known = [row for row in rows if row.get(SPEED) and row.get(RATE)]
    limits = limits_of(rows[0], tier=str(rows[0].get("tier") or ""))
    x, y = (
        Axis(f"{label_of(name)}, {limits[name]}" if name in limits else label_of(name))
        for name in (SPEED, RATE)
    )
    ends = {"smallest": known[:1], "largest": known[-1:]}
    curve = Line("by batch", [row[SPEED] for row in known], [row[RATE] for row in known], BLUE)
    title = f"{label_of(RATE)} over {label_of(SPEED)}"
    names = ("batch", SPEED, *COLUMNS[:3])
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=[
            Value(label=f"{label_of(name)}, {which} batch", value=marked_value(row, name))
            for which, end in ends.items()
            for row in end
            for name in (SPEED, RATE)
        ],
        sections=[
            Section.charted(title, LineChart([curve], x, y)),
            _points(rows, names),
        ],
        reproduce=reproduce,
    )


def clock_frontier_page(answer: Mapping[str, Any], over: str, *, reproduce: str) -> Page:
    """Return the latency-energy curve as an HTML page, with its point of least energy.

    Args:
        over: What is swept: clock_ratio or power_cap_w.
    """
    rows: Rows = answer["results"]["frontier"]
    least = min(rows, key=lambda row: (row[ENERGY], row[over]))
    return answer_page(
        answer,
        title=headline(answer),
        subtitle=subheadline(answer),
        values=_values(rows, least, over),
        sections=[
            _curve(rows, least, LATENCY),
            _curve(rows, least, over),
            _points(rows, (over, *COLUMNS)),
        ],
        reproduce=reproduce,
    )


def _values(rows: Rows, least: Mapping[str, Any], over: str) -> list[Value]:
    names = (ENERGY, LATENCY, "power_w")
    last = rows[-1]
    return [
        Value(label=f"least energy at {label_of(over)}", value=format_value(over, least[over])),
        *(
            Value(
                label=label_of(name),
                value=f"{marked_value(least, name)} (unlimited: {marked_value(last, name)})",
            )
            for name in names
        ),
    ]


def _curve(rows: Rows, least: Mapping[str, Any], name: str) -> Section:
    """Return energy over latency, or energy and power over what is swept."""
    x = [row[name] for row in rows]
    limits = limits_of(rows[0], tier=str(rows[0].get("tier") or ""))

    def titled(axis: Axis, of: str) -> Axis:
        return axis._replace(title=f"{axis.title}, {limits[of]}") if of in limits else axis

    def lines(of: str) -> list[Line]:
        curve = Line(label_of(of), x, [row[of] for row in rows], BLUE)
        return [curve, Line("least energy", [least[name]], [least[of]], ORANGE, "dots")]

    title = f"Energy over {label_of(name)}"
    along = titled(AXES[name], name)
    blocks = [Chart(figure=LineChart(lines(ENERGY), along, titled(JOULES, ENERGY)), title=title)]
    if name != LATENCY:
        watts = LineChart(lines("power_w"), along, titled(WATTS, "power_w"))
        blocks.append(Chart(figure=watts, title=f"Power over {label_of(name)}"))
    return Section(title=title, blocks=blocks)


def _points(rows: Rows, names: Sequence[str]) -> Section:
    """Return the points as a table of metrics and texts."""
    cells = [
        [*(marked_value(row, name) for name in names), *(str(row[name] or "-") for name in TEXTS)]
        for row in rows
    ]
    head = [*(label_of(name, short=True) for name in names), *TEXTS.values()]
    texts = tuple(range(len(names), len(head)))
    return Section(title="Points", blocks=[Table(head=head, rows=cells, text_columns=texts)])
