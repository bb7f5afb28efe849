"""HTML page of a search: the best plans, why, and the frontier."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.charts import COLOURS, GREY, RED, SLATE, Axis, Line, LineChart
from perfatlas.report.pages import (
    Section,
    Table,
    Value,
    answer_page,
    results_page,
)
from perfatlas.report.text import (
    format_share,
    headline,
    interval_text,
    label_of,
    subheadline,
)
from perfatlas.verbs.search.text import (
    LINE,
    at_most_text,
    counts_line,
    frontier_axes,
    has_limits,
    marked_metric,
    objectives_of,
    plan_name,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
SHOWN: Final = (Y, X, "ttft_s", "tpot_s", "request_latency_s")
COST: Final = "usd_per_million_output_tokens"
TEXTS: Final = ("plan", "tier")  # columns of text
FRONTIERS: Final = ("best deployment at each speed", "non-dominated deployments")
LOADS: Final = ("concurrency", "batch", "decode_batch")


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
        subtitle=f"{subheadline(answer)}; {counts_line(counts, verbose=True)}",
        values=_values(plans[0], answer["scenario"]),
        sections=[_plans(plans, results["ranking"], answer["scenario"]), *_frontier(answer)],
        reproduce=reproduce,
    )


def _values(best: Mapping[str, Any], scenario: Mapping[str, Any]) -> list[Value]:
    """Return the best plan and its metrics with their intervals."""
    names = (Y, "ttft_s", "tpot_s", *((COST,) if best.get(COST) is not None else ()))
    return [
        Value(label="best plan", value=plan_name(best, scenario)),
        *(
            [Value(label="P(SLO)", value=format_share(best["slo_probability"]))]
            if has_limits(scenario)
            else []
        ),
        *(
            Value(
                label=label_of(name),
                value=marked_metric(name, best),
                interval=interval_text(best, name) if f"{name}_low" in best else "",
            )
            for name in names
        ),
    ]


def _columns_of(
    scenario: Mapping[str, Any], metrics: Iterable[str], *, limited: bool = False
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return the columns of a table of plans: title, and cell of a plan.

    Args:
        limited: Whether to show the probability of all limits.
    """
    return {
        "plan": partial(plan_name, scenario=scenario),
        "GPUs": lambda row: f"{row['gpus']:,}",
        "load": lambda row: f"{_load(row):,}",
        **{label_of(name, short=True): partial(marked_metric, name) for name in metrics},
        **({"P(SLO)": lambda row: format_share(row["slo_probability"])} if limited else {}),
        "tier": itemgetter("tier"),
    }


def _plans(plans: Rows, ranking: Sequence[str], scenario: Mapping[str, Any]) -> Section:
    """Return the best plans, and why each is where it is."""
    columns = _columns_of(scenario, SHOWN, limited=has_limits(scenario))
    reasons: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "plan": columns["plan"],
        "why not a higher load": itemgetter("why"),
    }
    tables = [Table.of(plans, columns, TEXTS), Table.of(plans, reasons, tuple(reasons))]
    if ranking:
        tables.append(Table(head=["ranking"], rows=[[note] for note in ranking]))
    return Section(title="Best plans", blocks=tables)


def _load(row: Mapping[str, Any]) -> int:
    return next(int(row[name]) for name in LOADS if row.get(name) is not None)


def _frontier(answer: Mapping[str, Any]) -> list[Section]:
    """Return the frontier as a chart with the best plans, and as a table."""
    x, y = frontier_axes(answer["scenario"])
    known = [row for row in answer["results"]["frontier"] if row[x] and row[y]]
    if not known:
        return []
    metrics = dict.fromkeys((*SHOWN, *(n for n in (y, x) if n in METRICS and n != "gpus")))
    title = f"Frontier of {'throughput and speed' if x == X else 'the objectives'}"
    table = Table.of(known, _columns_of(answer["scenario"], metrics), TEXTS)
    return [Section.charted(title, _frontier_chart(answer, known), table)]


def _frontier_chart(answer: Mapping[str, Any], known: Rows) -> LineChart:
    """Return the points of the frontier and the plans of the answer."""
    plans: Rows = answer["results"]["plans"]
    x, y = frontier_axes(answer["scenario"])
    several = len(objectives_of(answer["scenario"])) > 1
    joined = "line" if len(objectives_of(answer["scenario"])) <= LINE else "dots"
    points = sorted(known, key=lambda row: float(row[x]))
    best = "best plan by all objectives" if several else "best plan under the SLOs"
    names = [plan_name(row, answer["scenario"]) for row in points]
    plans_of = dict(zip(dict.fromkeys(names), COLOURS, strict=False))
    lines = [
        Line(FRONTIERS[several], *_columns(points, x, y), GREY, joined),
        *(
            Line(
                plan,
                *_columns(
                    [row for row, name in zip(points, names, strict=True) if name == plan], x, y
                ),
                colour,
                "dots",
            )
            for plan, colour in plans_of.items()
        ),
        Line("other plans of the answer", *_columns(plans[1:], x, y), SLATE, "dots"),
        Line(
            best,
            *_columns(plans[:1], x, y),
            RED,
            "mark",
            texts=[plan_name(plans[0], answer["scenario"])],
        ),
    ]
    limit = at_most_text(known)
    along, up = (Axis(f"{METRICS[name].label}{limit}") for name in (x, y))
    return LineChart(lines, along, up)


def _columns(rows: Rows, x: str, y: str) -> tuple[list[float], list[float]]:
    """Return two metrics of the rows that have both."""
    known = [row for row in rows if row[x] and row[y]]
    return [row[x] for row in known], [row[y] for row in known]
