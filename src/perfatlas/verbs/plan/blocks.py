"""What a plan of a fleet shows: the decision in words, years, orders, what would change it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report import charts, pages, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Answered = Mapping[str, Any]
    Columns = dict[str, str | Callable[[Answered], str]]  # cells by title

SHOWN: Final = (
    *("plan_cost_usd", "plan_revenue_usd", "lost_revenue_usd", "plan_usd_per_million_tokens"),
    "capital_usd",
    *("peak_power_w", "node_failures", "emitted_gco2"),
)
MILLION: Final = 1e6
MAX_YEARS: Final = 5  # of a brief text
MAX_CASES: Final = 4  # the own assumptions first
MAX_VALUES: Final = 3
RATE: Final = "tokens_per_s_per_gpu"
DAYS: Final = 365.25 / 12.0  # of a month


def _millions(usd: float) -> str:
    return f"{usd / MILLION:,.1f}"


def _weight(row: Answered) -> float:
    return math.inf if row["cost_change_usd"] is None else abs(row["cost_change_usd"])


def _change(row: Answered) -> str:
    if row["cost_change_usd"] is None:
        return f"{row['short_from']} not met"
    return f"{row['cost_change_usd'] / MILLION:+,.1f} M USD"


def _first(row: Answered) -> str:
    if row["cost_change_usd"] is None:
        return "-"
    changed = "changes: " if row["changes_decision"] else ""
    return f"{changed}{row['first_orders'] or 'none'}"


YEARS: Columns = {
    "year": lambda row: str(row["year"]),
    "delivered": lambda row: f"{row['delivered_gpus']:,.0f}",
    "retired": lambda row: f"{row['retired_gpus']:,.0f}",
    "installed": lambda row: f"{row['installed_gpus']:,.0f}",
    "rented": lambda row: f"{row['rented_gpus']:,.0f}",
    "peak": lambda row: text.format_value("peak_power_w", row["peak_power_w"]),
    "tokens/day": lambda row: f"{row['tokens'] / row['months'] / DAYS:.3g}",
    "capital [M USD]": lambda row: _millions(row["capital_usd"]),
    "cost [M USD]": lambda row: _millions(row["running_cost_usd"]),
    "USD/M tokens": lambda row: (
        "-"
        if row["plan_usd_per_million_tokens"] is None
        else f"{row['plan_usd_per_million_tokens']:.3g}"
    ),
    "node failures": lambda row: f"{row['node_failures']:,.0f}",
}
ORDERS: Columns = {
    "order in": "order",
    "delivery": "delivery",
    "system": "system",
    "GPUs": lambda row: f"{row['gpus']:,}",
    "capital [M USD]": lambda row: _millions(row["capital_usd"]),
}
CASES: Columns = {
    "if": "assumption",
    "cost": _change,
    "first-year orders": _first,
}
METHOD: Final = "least-cost plan (linear program) over predicted rates"
COVERED: Final = "the 90% interval covers the rates of machines, not demand, prices and deliveries"


def conclusion(answer: Answered) -> list[str]:
    """Return the decision in words: what to buy, what it costs, what would change it."""
    results = answer["results"]
    by_machine: dict[str, list[Any]] = {}
    for row in results["orders"]:
        by_machine.setdefault(row["system"], []).append(row)
    bought = [
        f"{sum(row['gpus'] for row in rows):,} {name} ({rows[0]['delivery']} to"
        f" {rows[-1]['delivery']})"
        if len(rows) > 1
        else f"{rows[0]['gpus']:,} {name} ({rows[0]['delivery']})"
        for name, rows in by_machine.items()
    ]
    retired = sum(row["retired_gpus"] for row in results["years"])
    lines = [f"Buy {', '.join(bought)}." if bought else "Buy nothing."]
    if retired >= 1.0:
        lines[0] += f" Retire {retired:,.0f} GPUs."
    if results["orders"]:
        first = results["orders"][0]
        lines.append(
            f"First decision: order {first['gpus']:,} {first['system']} in {first['order']} for"
            f" {_millions(first['capital_usd'])} million USD."
        )
    cases = results.get("other_assumptions", ())
    changed = sum(row["changes_decision"] for row in cases)
    if cases[1:]:
        lines.append(
            f"{changed} of {len(cases) - 1} other assumptions change the orders of the first year."
        )
    return lines


def plan_page(
    answer: Answered, months: Mapping[str, Sequence[Any]] | None = None, *, reproduce: str
) -> pages.Page:
    """Return a plan of a fleet.

    Args:
        months: Its accounts by month, for the pictures; None without them.
    """
    results = answer["results"]
    values = pages.key_values(results, SHOWN)
    study = answer["scenario"]["study"]
    rents = any(row["rented_gpus"] for row in results["years"])
    years = {title: cell for title, cell in YEARS.items() if rents or title != "rented"}
    orders, cases = results["orders"], results.get("other_assumptions", [])
    sections = [
        pages.Section(blocks=conclusion(answer)),
        pages.Section(blocks=[pages.Values(all=values, brief=values[:MAX_VALUES])], on="terminal"),
        pages.Section(
            title="By year",
            blocks=[
                pages.Table.of(
                    results["years"],
                    years,
                    ("year",),
                    optional=("node failures", "rented", "retired"),
                )
            ],
            most=MAX_YEARS,
        ),
    ]
    if orders:
        table = pages.Table.of(orders, ORDERS, ("order in", "delivery", "system"))
        sections.append(pages.Section(title="Orders", blocks=[table], is_detail=True))
    if cases:
        own, *others = cases
        order = [own, *sorted(others, key=_weight, reverse=True)]
        table = pages.Table.of(order, CASES, ("if", "first-year orders"))
        sections.append(
            pages.Section(title="Under other assumptions", blocks=[table], most=MAX_CASES)
        )
    return pages.answer_page(
        answer,
        [*sections, *_charts(months, study), *_machines(results)],
        title=f"{study.get('name', 'fleet plan')}, {study['months']} months from {study['start']}",
        lines=(),
        values=values,
        reproduce=reproduce,
        method=METHOD,
        covered=COVERED,
    )


def _rate(row: Answered) -> str:
    if RATE not in row:
        return "-"
    return f"{row[RATE]:,.0f} ({text.interval_text(row, RATE)})"


def _machines(results: Answered) -> list[pages.Section]:
    """Return what each machine does for each workload."""
    columns: Columns = {
        "system": "system",
        "workload": "workload",
        "tokens/s/GPU": _rate,
        "W per GPU": lambda row: f"{row['gpu_power_w']:,.0f}" if "gpu_power_w" in row else "-",
        "with": lambda row: row.get("reason") or row["plan"],
    }
    table = pages.Table.of(results["machines"], columns, ("system", "workload", "with"))
    return [pages.Section(title="Machines", blocks=[table], is_detail=True)]


def _charts(months: Mapping[str, Sequence[Any]] | None, study: Answered) -> list[pages.Section]:
    """Return the pictures: GPUs by system, power against the site, money by month."""
    if months is None:
        return []
    x = list(range(len(months["month"])))
    axis = charts.Axis(f"months from {study['start']}")

    def drawn(names: Mapping[str, str], y: charts.Axis, scale: float = 1.0) -> charts.LineChart:
        lines = [
            charts.Line(label, x, [value / scale for value in months[name]], colour, "step")
            for (name, label), colour in zip(names.items(), charts.COLOURS * 3, strict=False)
            if name in months and any(months[name])
        ]
        return charts.LineChart(lines, axis, y)

    installed = {
        name: name.partition(": ")[2] for name in months if name.startswith("installed_gpus: ")
    }
    rented = {
        name: f"{name.partition(': ')[2]} (rented)"
        for name in months
        if name.startswith("rented_gpus: ")
    }
    tokens = {
        name: label + name.partition(": ")[2]
        for head, label in (("demand_tokens_per_s", "demand of "), ("tokens_per_s", ""))
        for name in months
        if name.startswith(f"{head}: ")
    }
    power = {"peak_power_w": "peak", "mean_power_w": "mean", "site_power_w": "site"}
    money = {
        "capital_usd": "capital",
        "running_cost_usd": "cost with depreciation",
        "revenue_usd": "revenue",
    }
    return [
        pages.Section.charted("GPUs", drawn(installed | rented, charts.Axis("GPUs")), on="page"),
        pages.Section.charted(
            "Power of the site", drawn(power, charts.Axis("power", "W")), on="page"
        ),
        pages.Section.charted("Tokens", drawn(tokens, charts.Axis("tokens/s")), on="page"),
        pages.Section.charted(
            "Money by month", drawn(money, charts.Axis("million USD"), MILLION), on="page"
        ),
    ]
