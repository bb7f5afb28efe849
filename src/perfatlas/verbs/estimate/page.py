"""HTML page of the latency-energy curve over clocks or power limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import BLUE, ORANGE, Axis, Line, line_chart
from perfatlas.report.pages import (
    Chart,
    Page,
    Section,
    Table,
    Value,
    answer_evidence,
    answer_versions,
    page_html,
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

    from perfatlas.report.charts import Script

    Rows = Sequence[Mapping[str, Any]]

ENERGY: Final = "energy_per_output_token_j"
LATENCY: Final = "tpot_s"
COLUMNS: Final = (LATENCY, "ttft_s", "output_tokens_per_s_per_gpu", "power_w", ENERGY)
TEXTS: Final = {"decode_bound": "decode bound", "prefill_bound": "prefill bound", "tier": "tier"}
AXES: Final = {
    LATENCY: Axis("time per output token", unit="s"),
    "clock_ratio": Axis("clock over the sustained clock"),
    "power_cap_w": Axis("power limit of a GPU [W]"),
}
JOULES: Final = Axis("energy per output token [J]")
WATTS: Final = Axis("power of a GPU [W]")


def clock_frontier_page(
    answer: Mapping[str, Any], over: str, *, reproduce: str, script: Script = "inline"
) -> str:
    """Return the latency-energy curve as an HTML page, with its point of least energy.

    Args:
        answer: The `--json` object of the frontier.
        over: What is swept: clock_ratio or power_cap_w.
        reproduce: The command line that reproduces it.
        script: Source of plotly.js, as for `page_html`.
    """
    rows: Rows = answer["results"]["frontier"]
    least = min(rows, key=lambda row: (row[ENERGY], row[over]))
    page = Page(
        command=str(answer["command"]),
        title=headline(answer),
        subtitle=subheadline(answer),
        values=_values(rows, least, over),
        sections=[_curve(rows, least, LATENCY), _curve(rows, least, over), _table(rows, over)],
        evidence=answer_evidence(answer),
        warnings=answer["warnings"],
        reproduce=reproduce,
        versions=answer_versions(answer),
    )
    return page_html(page, script=script)


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
    blocks = [Chart(figure=line_chart(lines(ENERGY), along, titled(JOULES, ENERGY)), title=title)]
    if name != LATENCY:
        watts = line_chart(lines("power_w"), along, titled(WATTS, "power_w"))
        blocks.append(Chart(figure=watts, title=f"Power over {label_of(name)}"))
    return Section(title=title, blocks=blocks)


def _table(rows: Rows, over: str) -> Section:
    names = (over, *COLUMNS)
    cells = [
        [*(marked_value(row, name) for name in names), *(str(row[name] or "-") for name in TEXTS)]
        for row in rows
    ]
    head = [*(label_of(name, short=True) for name in names), *TEXTS.values()]
    texts = tuple(range(len(names), len(head)))
    return Section(title="Points", blocks=[Table(head=head, rows=cells, text_columns=texts)])
