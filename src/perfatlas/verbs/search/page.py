"""HTML page of a search: the best plans, why, and the frontier."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import COLOURS, GREY, RED, SLATE, Axis, Line, LineChart, spans_decades
from perfatlas.report.pages import (
    Section,
    Table,
    Value,
    answer_page,
    key_values,
    results_page,
)
from perfatlas.report.text import (
    headline,
    point_details,
    subheadline,
)
from perfatlas.verbs.search import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
COST: Final = "usd_per_million_output_tokens"
DETAILS: Final = ("concurrency", "batch", "ttft_s", "tpot_s", "request_latency_s")
FRONTIERS: Final = ("best deployment at each speed", "non-dominated deployments")


def search_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return a search as an HTML page."""
    results = answer["results"]
    if not results.get("plans"):
        return results_page(answer, reproduce=reproduce)
    plans: Rows = results["plans"]
    # pages of one search are the same bytes
    counts = {name: value for name, value in results.items() if name != "candidates_per_cpu_s"}
    return answer_page(
        answer,
        title=headline({**answer, "results": {"gpus": plans[0]["gpus"]}}),
        subtitle=f"{subheadline(answer)}; {text.counts_line(counts, verbose=True)}",
        values=[
            Value(label="best plan", value=text.plan_name(plans[0], answer["scenario"])),
            *key_values(plans[0], _named(answer["scenario"]), tier=str(plans[0]["tier"])),
        ],
        sections=[_plans(plans, results["ranking"], answer["scenario"]), *_frontier(answer)],
        reproduce=reproduce,
    )


def _named(scenario: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the best plan that a page begins with."""
    shown = (Y, "ttft_s", "tpot_s", COST, *text.ITEMS, "usd_per_million_items")
    return [*(["slo_probability"] if text.has_limits(scenario) else []), *shown]


def _table(rows: Rows, scenario: Mapping[str, Any]) -> Table:
    """Return plans, or points of the frontier, as the table of the text, with their tiers."""
    columns = {
        **{
            name.replace("\n", ""): cell for name, cell in text.plan_columns(rows, scenario).items()
        },
        "tier": lambda row: str(row["tier"]),
    }
    return Table.of(rows, columns, (*text.VARIED, "plan", "tier"))


def _plans(plans: Rows, ranking: Sequence[str], scenario: Mapping[str, Any]) -> Section:
    """Return the best plans, and why each is where it is."""
    reasons: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "plan": partial(text.plan_name, scenario=scenario),
        "why not a higher load": itemgetter("why"),
    }
    tables = [_table(plans, scenario), Table.of(plans, reasons, tuple(reasons))]
    if ranking:
        tables.append(Table(head=["ranking"], rows=[[note] for note in ranking]))
    return Section(title="Best plans", blocks=tables)


def _frontier(answer: Mapping[str, Any]) -> list[Section]:
    """Return the frontier as a chart with the best plans, and as a table."""
    x, y = text.frontier_axes(answer["scenario"])
    known = [row for row in answer["results"]["frontier"] if row[x] and row[y]]
    if not known:
        return []
    scenario = answer["scenario"]
    systems = dict.fromkeys([scenario.get("system"), *(scenario.get("systems") or ())])
    title = f"Frontier of {'throughput and speed' if x == X else 'the objectives'}"
    title += f": {scenario['model']} on {' or '.join(str(one) for one in systems if one)}"
    table = _table(known, answer["scenario"])
    return [Section.charted(title, _frontier_chart(answer, known), table)]


def _frontier_chart(answer: Mapping[str, Any], known: Rows) -> LineChart:
    """Return the points of the frontier and the plans of the answer."""
    plans: Rows = answer["results"]["plans"]
    x, y = text.frontier_axes(answer["scenario"])
    several = len(text.objectives_of(answer["scenario"])) > 1
    joined = "line" if len(text.objectives_of(answer["scenario"])) <= text.LINE else "dots"
    points = sorted(known, key=lambda row: float(row[x]))
    best = "best plan by all objectives" if several else "best plan under the SLOs"
    names = [text.plan_name(row, answer["scenario"]) for row in points]
    plans_of = dict(zip(dict.fromkeys(names), COLOURS, strict=False))
    scenario = answer["scenario"]

    def line(name: str, rows: Rows, colour: str, kind: str, *texts: str) -> Line:
        own = [row for row in rows if row[x] and row[y]]
        told = [point_details(row, text.plan_name(row, scenario), DETAILS) for row in own]
        along, up = ([row[axis] for row in own] for axis in (x, y))
        return Line(name, along, up, colour, kind, texts=texts, details=told)

    lines = [
        line(FRONTIERS[several], points, GREY, joined),
        *(
            line(
                plan,
                [row for row, name in zip(points, names, strict=True) if name == plan],
                colour,
                "dots",
            )
            for plan, colour in plans_of.items()
        ),
        line("other plans of the answer", plans[1:], SLATE, "dots"),
        line(best, plans[:1], RED, "mark", text.plan_name(plans[0], scenario)),
    ]
    limit = text.at_most_text(known)
    along, up = (Axis.of(name) for name in (x, y))
    return LineChart(
        lines,
        along._replace(title=f"{along.title}{limit}", log=spans_decades(row[x] for row in known)),
        up._replace(title=f"{up.title}{limit}", log=spans_decades(row[y] for row in known)),
    )
