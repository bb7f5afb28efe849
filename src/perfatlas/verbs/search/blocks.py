"""What `search` shows: the best plans, why, and the frontier; with --solve, the machine."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.answer import limit_note
from perfatlas.hardware import unit_of
from perfatlas.networks import is_graph
from perfatlas.report import charts, pages, text
from perfatlas.studies import (
    AREA,
    deployments as search,
    print_sensitivities,
    rejected_text,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = Mapping[str, Any]
    Rows = Sequence[Row]
    Column = str | Callable[[Row], str]

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
METRICS_SHOWN: Final = (Y, "ttft_s", "tpot_s")
ITEMS: Final = ("throughput_per_s_per_gpu", "request_latency_s")  # of graphs of operators
COSTS: Final = {Y: "usd_per_million_output_tokens", ITEMS[0]: "usd_per_million_items"}
DETAILS: Final = ("concurrency", "batch", "ttft_s", "tpot_s", "request_latency_s")
FRONTIERS: Final = ("best deployment at each speed", "non-dominated deployments")
TOKENS: Final = "max_num_batched_tokens"
MILLION: Final = 1e6
LINES: Final = 5  # of the frontier in a brief text
MAX_RULES: Final = 3
LINE: Final = 2  # objectives whose frontier is a line
PART_LIMITED: Final = (
    "≥ at least, ≤ at most: {} has no measured kernels and is at its roofline, in the chart too;"
    " the others are predictions"
)


def search_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return a search."""
    scenario, results = answer["scenario"], answer["results"]
    if "machine" in results:
        return _machine_page(answer, reproduce=reproduce)
    if not results.get("plans"):
        return pages.results_page(answer, reproduce=reproduce)
    plans: Rows = results["plans"]
    first = plans[0]
    named = {f"{pool}_engine": first.get(f"{pool}_engine") for pool in search.ROLES}
    asked = {**answer, "results": {**results, "gpus": first["gpus"], **named}}
    probability = ["slo_probability"] if _has_limits(scenario) else []
    values = (*probability, Y, "ttft_s", "tpot_s", COSTS[Y], *ITEMS, COSTS[ITEMS[0]])
    best = text.Value("best plan", search.plan_name(first, scenario))
    return pages.answer_page(
        answer,
        [*_plans(answer), *_frontier(answer), *_explained(answer)],
        title=text.headline(asked),
        lines=text.question_lines(asked),
        values=[best, *pages.key_values(first, values, tier=str(first["tier"]))],
        reproduce=reproduce,
    )


def _plans(answer: Row) -> list[pages.Section]:
    """Return the best plans, why the first is first, and what holds the load of each."""
    scenario, plans = answer["scenario"], answer["results"]["plans"]
    first, limited = plans[0], [plan for plan in plans if limit_note(plan["tier"])]
    systems = dict.fromkeys(search.setting_text("system", plan) for plan in limited)
    priced = scenario.get("usd_per_gpu_hour") is not None
    notes = (
        PART_LIMITED.format(", ".join(systems)) if 0 < len(limited) < len(plans) else "",
        f"why the first: {search.first_line(plans, _objectives(scenario))}",
        f"why not a higher load: {first['why']}",
        search.placement_line(plans),
        search.nodes_line(first),
        _cost_line(first) if priced else "",
        *answer["results"]["ranking"],
    )
    reasons: dict[str, Any] = {
        "plan": partial(search.plan_name, scenario=scenario),
        "why not a higher load": itemgetter("why"),
    }
    why = pages.Table.of(plans[1:], reasons, tuple(reasons))
    others = [pages.Section(title="Why not a higher load", blocks=[why], on="page")]
    return [
        pages.Section(title="Best plans", blocks=[_table(plans, scenario), *filter(None, notes)]),
        *(others if plans[1:] else []),
    ]


def _cost_line(plan: Row) -> str:
    """Return what the first plan costs, "" without a price."""
    rate = Y if Y in plan else ITEMS[0]
    cost = plan.get(COSTS[rate])
    if cost is None:
        return ""
    replicas = plan.get("dp", 1)
    serving = replicas / (replicas + plan.get("spare_replicas", 0))
    hourly = cost * serving * plan[rate] * plan["gpus"] * quantities.HOUR_S / MILLION
    return (
        f"cost of the first: ${hourly:,.2f} per hour, ${cost:,.2f} per million"
        f" {'output tokens' if rate == Y else 'items'} at the load in the table"
    )


def _objectives(scenario: Row) -> list[str]:
    """Return the objectives of a search, one to four."""
    default = ITEMS[0] if is_graph(scenario.get("model")) else Y
    return str(scenario.get("objective") or default).split(",")


def _has_limits(scenario: Row) -> bool:
    """Return whether a search has SLOs or a request rate; without, all plans meet them."""
    return any(scenario.get(name) is not None for name in search.LIMITS)


def _table(plans: Rows, scenario: Row) -> pages.Table:
    """Return plans, or points of the frontier: sizes, load, metrics, probability of all limits."""
    first = plans[0]
    rate = Y if Y in first else ITEMS[0]
    columns: dict[str, Column] = {
        **search.varied_columns(scenario),
        "plan": search.plan_text,
        **({"GPUs": "gpus"} if scenario.get("max_gpus") else {}),
        **({"batched": lambda plan: f"{plan[TOKENS]:,}"} if TOKENS in first else {}),
    }
    if "prefill_workers" not in first or any("concurrency" in plan for plan in plans):
        columns["load"] = _load
    columns |= _metric_columns(scenario, first)
    columns["90%"] = lambda plan: text.interval_text(plan, rate)
    if _has_limits(scenario):
        columns["P(SLO)"] = lambda plan: text.format_share(plan["slo_probability"])
    if "prefix_hit_rate" in first:
        columns["hits"] = lambda plan: text.format_share(plan["prefix_hit_rate"])
    if "availability" in first:
        columns["up"] = lambda plan: f"{plan['availability']:.3%}"
    if len({plan["tier"] for plan in plans}) > 1:
        columns["tier"] = lambda plan: str(plan["tier"])
    texts = (*search.VARIED, "plan", "tier")
    return pages.Table.of(plans, columns, texts, optional=("90%", "tier"))


def _load(plan: Row) -> str:
    load = plan.get("concurrency") or plan.get("batch")
    return f"{load:,}" if load else "-"  # closed forms of pools have no load


def _metric_columns(scenario: Row, first: Row) -> dict[str, Column]:
    """Return the columns of metrics; latencies with SLOs at their percentile, if it is known."""
    percentile = scenario.get("slo_percentile")
    limited = [name for slo, name in search.LATENCIES.items() if scenario.get(slo) is not None]
    limited += [search.DELTA] if scenario.get(search.LOSS) is not None else []
    ranked = [name for name in _objectives(scenario) if name != "gpus"]
    shown: Sequence[str] = ITEMS if is_graph(scenario.get("model")) else METRICS_SHOWN
    shown = shown if len(ranked) <= LINE + 1 else shown[:1]
    columns: dict[str, Column] = {}
    for name in dict.fromkeys((*shown, *limited, *ranked)):
        label, key = METRICS[name].short_label, name
        title = label.replace("/s/", "/s\n/")
        if percentile is not None and name in limited:
            known = search.percentile_name(name)
            title, key = (f"p{percentile:g}\n{label}", known) if known in first else (title, name)
        columns[title] = partial(text.marked_value, name=key)
    return columns


def _frontier(answer: Row) -> list[pages.Section]:
    """Return the frontier as a chart with the best plans, over its first two objectives."""
    scenario, results = answer["scenario"], answer["results"]
    y, *others = _objectives(scenario)
    x = others[0] if others else X
    if not others and is_graph(scenario.get("model")):
        x, y = ITEMS[1], ITEMS[0]
    elif not others:
        y = Y
    counts = pages.Note(_counts_line(results), _counts_line(results, MAX_RULES))
    known = [row for row in results["frontier"] if row[x] and row[y]]
    if not known:
        return [pages.Section(title="Candidates", blocks=[counts])]
    systems = dict.fromkeys([scenario.get("system"), *(scenario.get("systems") or ())])
    title = f"Frontier of {'throughput and speed' if x == X else 'the objectives'}"
    title += f": {scenario['model']} on {' or '.join(str(one) for one in systems if one)}"
    chart = pages.Chart(figure=_chart(answer, known, x, y), title=title, lines=LINES)
    return [
        pages.Section(title=title, blocks=[chart, counts]),
        pages.Section(title="Points of the frontier", blocks=[_table(known, scenario)], on="page"),
    ]


def _chart(answer: Row, known: Rows, x: str, y: str) -> charts.LineChart:
    """Return the points of the frontier and the plans of the answer."""
    plans: Rows = answer["results"]["plans"]
    objectives = len(_objectives(answer["scenario"]))
    points = sorted(known, key=lambda row: float(row[x]))
    name_of = partial(search.plan_name, scenario=answer["scenario"])
    groups: dict[str, list[Row]] = {}
    for row in points:
        groups.setdefault(name_of(row), []).append(row)

    def line(name: str, rows: Rows, colour: str, kind: str, *texts: str) -> charts.Line:
        own = [row for row in rows if row[x] and row[y]]
        told = [text.point_details(row, name_of(row), DETAILS) for row in own]
        along, up = ([row[axis] for row in own] for axis in (x, y))
        return charts.Line(name, along, up, colour, kind, texts=texts, details=told)

    best = "best plan by all objectives" if objectives > 1 else "best plan under the SLOs"
    lines = [
        line(FRONTIERS[x != X], points, charts.GREY, "line" if objectives <= LINE else "dots"),
        *(
            line(plan, rows, colour, "dots")
            for (plan, rows), colour in zip(groups.items(), charts.COLOURS, strict=False)
        ),
        line("other plans of the answer", plans[1:], charts.SLATE, "dots"),
        line(best, plans[:1], charts.RED, "mark", name_of(plans[0])),
    ]
    limited = [bool(text.limits_of({y: row[y]}, tier=row["tier"])) for row in known]
    part = "" if all(limited) else f" for {sum(limited)} of {len(limited)} points"
    limit = f", at most{part}" if any(limited) else ""
    along, up = (
        (axis := charts.Axis.of(name))._replace(
            title=f"{axis.title}{limit}", log=charts.spans_decades(row[name] for row in known)
        )
        for name in (x, y)
    )
    return charts.LineChart(lines, along, up)


def _counts_line(results: Row, most: int | None = None) -> str:
    """Return the numbers of candidates and of refused combinations, in a line."""
    rate = None if most else results.get("candidates_per_cpu_s")
    speed = f" ({text.format_number(rate)} candidates per CPU-second)" if rate else ""
    words = rejected_text(results["rejected"], METRICS["rejected"].parts, most)
    refused = f"; {sum(results['rejected'].values()):,} refused: {words}" if words else ""
    return (
        f"{results['candidates']:,} candidates at {results['points']:,} loads"
        f"{speed}, {results['candidates_within_slos']:,} meet all limits{refused}"
    )


def _explained(answer: Row) -> list[pages.Section]:
    """Return the sensitivities of the first plan, and the commands that launch it."""
    results = answer["results"]
    launch = [pages.Command(line=line, label="launch: ") for line in results.get("launch", ())]
    sections = [pages.Section(title="Launch", blocks=launch)] if launch else []
    if "explained" in results:
        first = search.plan_name(results["plans"][0], answer["scenario"])
        title = f"Sensitivities of the first ({first}), by closed forms"
        tornado = pages.TextOnly(write=partial(print_sensitivities, results=results["explained"]))
        sections.insert(0, pages.Section(title=title, blocks=[tornado], on="terminal"))
    return sections


def _machine_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return the machine of `search --solve`, what holds its fields, and what its limits cost."""
    results, machine = answer["results"], answer["results"]["machine"]
    shown = [
        text.Value(
            text.label_of(name),
            text.format_value(name, machine[name]),
            text.interval_text(machine, name),
        )
        for name in ("chip_usd", AREA, *search.MACHINE_METRICS)
        if machine[name] is not None
    ]
    columns: dict[str, Column] = {
        "field": lambda row: row["field"],
        "value": lambda row: quantities.format_quantity(row["value"], unit_of(row["field"])),
        "of base": lambda row: f"{row['value'] / row['base_value']:.2f}x",
        "held by": lambda row: ", ".join(row["held_by"]),
    }
    solved = pages.Table.of(results["unknowns"], columns, ("field", "held by"))
    costs = []
    for row in results["limit_costs"]:
        moved = [
            f"{side} by {search.LIMIT_STEP:.0%}: "
            + ("none meets it" if usd is None else f"{usd - machine['chip_usd']:+,.0f} USD")
            for side in ("tighter", "looser")
            for usd in (row[f"{side}_chip_usd"],)
        ]
        value, most = (text.format_value(row["limit"], row[n]) for n in ("value", "most"))
        label = text.label_of(row["limit"])
        costs.append(f"{label} {value} of at most {most}; {'; '.join(moved)}")
    chiplets = "; ".join(
        f"{row['dies']}: none meets all limits"
        if row["reason"]
        else f"{row['dies']}: {row['chip_usd']:,.0f} USD, {row[AREA]:,.0f} mm2 each"
        for row in results.get("dies", ())
    )
    asked = {**answer, "results": {**results, "gpus": answer["scenario"].get("gpus") or 1}}
    return pages.answer_page(
        answer,
        [
            pages.Section(title="Cheapest machine", blocks=[pages.Values(all=shown)]),
            pages.Section(title="Solved fields", blocks=[solved]),
            *([pages.Section(title="Dies of a device", blocks=[chiplets])] if chiplets else []),
            pages.Section(title="Limits and their costs", blocks=costs),
        ],
        title=text.headline(asked),
        lines=text.question_lines(asked),
        values=shown[:1],
        reproduce=reproduce,
    )
