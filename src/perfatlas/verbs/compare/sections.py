"""A comparison in a terminal and as a page: results side by side, and what differs."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import comparison_note, limit_note
from perfatlas.report import charts
from perfatlas.report.pages import PHASE_TITLES, Section, Table, Value, answer_page
from perfatlas.report.text import (
    format_share,
    format_value,
    interval_text,
    item_of,
    label_of,
    limited_text,
    limits_of,
    print_cells,
    print_closing,
    print_line,
    ratio_text,
    share_text,
)
from perfatlas.verbs.compare.metrics import ACCURACY, CARBON, COMPARED, FACILITY, PASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from perfatlas.report.pages import Page

    Row = Mapping[str, Any]
    Rows = Sequence[Row]

# of the text: networks with tokens; of key numbers: also passes of graphs
SHOWN: Final = ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "energy_per_output_token_j")
VALUES: Final = (*SHOWN[:3], "latency_s", "throughput_per_s")
MAX_OPERATORS: Final = 3
LIMITS: Final = "  ≥ at least, ≤ at most: at the roofline, as kernels are not measured"
SOLVED: Final = "equal="  # an override whose solved value the label does not show
LABEL_WIDTH: Final = 18
BREAK: Final = re.compile(r"(?=\{)|(?<=,)")
ROUNDING: Final = 1e-9  # of a difference, relative to the times
MAX_BARS: Final = 12
MAX_SCENARIOS: Final = 8  # whose differences a brief answer and a page show
SCENARIO: Final = "  scenario"


def print_comparison(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a comparison."""
    results = answer["results"]
    rows = results["rows"]
    scenarios = answer["scenario"]["scenarios"]
    models = dict.fromkeys(str(scenario.get("model")) for scenario in scenarios)
    named = all(
        str(scenario.get("model")).partition("{")[0] in scenario["label"] for scenario in scenarios
    )
    about = "" if named else f"{', '.join(models)}: "
    print_line(console, f"{about}{rows[0]['label']} compared with others", style="bold")
    _print_deployments(console, rows)
    for scenario in scenarios:
        if SOLVED in scenario["label"]:
            print_line(console, f"{scenario['label']} is {scenario['model']}")
    for names in (PASSES, SHOWN, FACILITY, CARBON, ACCURACY):
        if any(rows[0].get(name) is not None for name in names):
            console.print()
            _print_results(console, rows, names)
    if any(row.get("tier_note") for row in rows):
        print_line(console, LIMITS)
    console.print()
    others = rows[1:] if verbose else rows[1 : MAX_SCENARIOS + 1]
    most = len(results["differences"]) if verbose else MAX_OPERATORS
    for row in others:
        if row["error"] is not None:
            print_line(console, f"{row['label']}: {row['error']}")
            continue
        for line in _difference_lines(row, results["differences"], most):
            print_line(console, line)
    if len(others) < len(rows) - 1:
        print_line(console, f"--verbose shows {len(rows) - 1 - len(others)} more", style="dim")
    if "decisions" in results:
        _print_decisions(console, results, verbose=verbose)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def _print_deployments(console: Console, rows: Rows) -> None:
    """Write the engine, plan and load of all scenarios, or what differs of them."""
    print_line(console, _deployments_line(rows))
    columns: dict[str, Callable[[Row], str]] = {SCENARIO: lambda row: _broken(row["label"])}
    columns |= {name: column for name, column in DEPLOYMENT.items() if _varies(rows, column)}
    if len(columns) > 1:
        console.print()
        print_cells(console, rows, columns, (SCENARIO, "engine", "plan"))


def _print_decisions(console: Console, results: Mapping[str, Any], *, verbose: bool) -> None:
    """Write the measurements that would most change which design is faster."""
    difference_s, deviation_s = (
        results[name] for name in ("steps_difference_s", "steps_difference_deviation_s")
    )
    faster = results["rows"][0 if difference_s > 0.0 else 1]["label"]
    size, deviation = (format_value("time_s", one) for one in (abs(difference_s), deviation_s))
    console.print()
    print_line(
        console,
        f"steps of a request: {faster} is faster by {size}, standard deviation {deviation};"
        " measurements that would most reduce it:",
    )
    for number, row in enumerate(results["decisions"], 1):
        time = f"{format_value('time_s', row['time_s'])} ({interval_text(row, 'time_s')})"
        share = share_text(row["variance_share"])
        more = (text for text in (row["operators"] if verbose else "", row["reason"]) if text)
        text = f"{row['case']} on {row['system']}: {time}, {share} of variance"
        print_line(console, f"{number}. {'; '.join([text, *more])}")


def _columns(rows: Rows, names: Sequence[str]) -> dict[str, Callable[[Row], str]]:
    """Return columns of the metrics that the first scenario has, each with its ratio to it."""
    item = item_of(rows)
    return {
        label_of(name, short=True, item=item): partial(_cell, base=rows[0], name=name)
        for name in names
        if rows[0].get(name) is not None
    }


def _cell(row: Row, base: Row, name: str) -> str:
    """Return a metric with its ratio to that of the base; accuracies and other items have none."""
    value = row.get(name)
    if value is None:
        return "-"
    limit, of_base = (
        limits_of(record, tier=str(record.get("tier") or "")).get(name, "")
        for record in (row, base)
    )
    text = limited_text(format_value(name, value), limit)
    other_item = name in PASSES and row.get("item") != base.get("item")
    if row is base or base.get(name) is None or name in ACCURACY or other_item:
        return text
    return f"{text} {ratio_text(value, base[name], limit=limit, base_limit=of_base)}"


def _print_results(console: Console, rows: Rows, names: Sequence[str]) -> None:
    """Write a row per scenario."""
    columns = {SCENARIO: lambda row: _broken(row["label"]), **_columns(rows, names)}
    print_cells(console, rows, columns, (SCENARIO,))


def _varies(rows: Rows, column: Callable[[Row], str]) -> bool:
    return len({column(row) for row in rows if row["error"] is None}) > 1


DEPLOYMENT: Final = {
    "engine": lambda row: str(row.get("engine") or "-"),
    "plan": lambda row: str(row.get("plan") or "-"),
    "sequences": lambda row: f"{row['concurrency']:,}" if row.get("concurrency") else "-",
}


def _deployments_line(rows: Rows) -> str:
    """Return the plan and the sequences in flight of all scenarios, or that they differ."""
    differ = [name for name, column in DEPLOYMENT.items() if _varies(rows, column)]
    if differ:
        what = {"engine": "engines", "plan": "plans", "sequences": "sequences in flight"}
        named = " and ".join(what[name] for name in differ)
        remedies = {"plan": "set tp, pp and dp to compare alike", "sequences": "set concurrency"}
        advised = [remedies[name] for name in differ if name in remedies]
        return "; ".join((f"{named} differ", *advised[:1]))
    words = [f"all on plan {rows[0]['plan']}"]
    if rows[0]["concurrency"]:
        words.append(f"{rows[0]['concurrency']:,} sequences in flight")
    return ", ".join(words)


def _broken(label: str) -> str:
    """Return an indented label; one with overrides is broken before braces and after commas."""
    lines: list[str] = []
    for part in BREAK.split(label) if "{" in label else [label]:
        name, equals, value = part.strip().partition("=")
        whole = len(part) <= LABEL_WIDTH or not equals
        lines += [part.strip()] if whole else [name + equals, value]
    return "  " + "\n    ".join(lines)


def _difference_lines(
    compared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], most: int
) -> list[str]:
    """Return a line per phase: the step in both, and the operators that differ most."""
    lines, label = [], compared["label"]
    note = f" ({compared['tier_note']})" if compared["tier_note"] else ""
    for phase in dict.fromkeys(row["phase"] for row in rows):
        own = [row for row in rows if (row["label"], row["phase"]) == (label, phase)]
        if not own:
            continue
        before, after = (sum(row[key] for row in own) for key in ("base_time_s", "time_s"))
        parts = "; ".join(_operator_text(row) for row in own[:most] if row["difference_s"])
        change = f"{format_value('time_s', before)} -> {format_value('time_s', after)}"
        work = phase if phase in ("prefill", "pass") else f"{phase} step"
        lines.append(f"{label}, {work} {change}{note}: {parts or 'the same'}")
    return lines


def _operator_text(row: Row) -> str:
    bounds = dict.fromkeys(one for one in (row["base_bound"], row["bound"]) if one)
    return f"{row['name']} {_signed(row)} ({' -> '.join(bounds)})"


def _signed(row: Row) -> str:
    sign = "-" if row["difference_s"] < 0 else "+"
    return f"{sign}{format_value('time_s', abs(row['difference_s']))}"


def comparison_page(answer: Mapping[str, Any], *, reproduce: str) -> Page:
    """Return a comparison as an HTML page."""
    results = answer["results"]
    rows: Rows = results["rows"]
    differences: Rows = results["differences"]
    answered = [row for row in rows if row["error"] is None]
    phases = dict.fromkeys(row["phase"] for row in differences)
    models = dict.fromkeys(str(one.get("model")) for one in answer["scenario"]["scenarios"])
    return answer_page(
        answer,
        title=f"{rows[0]['label']} compared with {', '.join(row['label'] for row in rows[1:])}",
        subtitle=f"{', '.join(models)}; {_deployments_line(rows)}",
        values=_values(answered),
        sections=[
            _results(rows),
            *(_by_bound(phase, answered, differences) for phase in phases),
            *(
                _by_operator(phase, row, rows[0], differences)
                for row in answered[1 : MAX_SCENARIOS + 1]
                for phase in phases
            ),
        ],
        reproduce=reproduce,
    )


def _values(rows: Rows) -> list[Value]:
    """Return the key metrics of the first scenarios, relative to the base."""
    base = rows[0]
    return [
        Value(
            label=f"{label_of(name, short=True, item=item_of(rows))}, {row['label']}",
            value=_cell(row, base, name),
            interval=interval_text(row, name) if f"{name}_low" in row else "",
        )
        for name in VALUES
        for row in rows[:2]
        if row.get(name) is not None
    ]


def _results(rows: Rows) -> Section:
    """Return the results side by side; a scenario without an answer has its error."""
    columns = {
        "scenario": lambda row: row["label"],
        "GPUs": lambda row: f"{row['gpus']:,}" if row["error"] is None else "-",
        **DEPLOYMENT,
        **_columns(rows, (*COMPARED, *PASSES, *FACILITY, *CARBON, *ACCURACY)),
        "tier": lambda row: str(row.get("tier") or row["error"]),
    }
    table = Table.of(rows, columns, ("scenario", "engine", "plan", "tier"))
    return Section(title="Results, and the ratio to the first", blocks=[table])


def _by_bound(phase: str, rows: Rows, differences: Rows) -> Section:
    """Return the time of a phase in every scenario, divided by what bounds its operators."""
    labels = [row["label"] for row in rows]
    times: dict[str, dict[str, float]] = {label: defaultdict(float) for label in labels}
    own = [row for row in differences if row["phase"] == phase]
    for row in own:
        # each scenario has the times of the first
        if row["label"] == own[0]["label"] and row["base_bound"] is not None:
            times[labels[0]][row["base_bound"]] += row["base_time_s"]
        if row["bound"] is not None:
            times[row["label"]][row["bound"]] += row["time_s"]
    bounds = [
        name for name in charts.BOUND_COLOURS if any(name in found for found in times.values())
    ]
    others = {name for found in times.values() for name in found} - set(charts.BOUND_COLOURS)
    parts = [
        charts.BarPart(
            name,
            [times[label].get(name, 0.0) for label in labels],
            [format_value("time_s", times[label].get(name, 0.0)) for label in labels],
            charts.BOUND_COLOURS.get(name, charts.GREY),
        )
        for name in (*bounds, *sorted(others))
    ]
    head = ("scenario", *(part.name for part in parts), "all")
    cells = [
        [
            label,
            *(part.texts[index] for part in parts),
            format_value("time_s", sum(times[label].values())),
        ]
        for index, label in enumerate(labels)
    ]
    title = f"{PHASE_TITLES.get(phase, phase)} by what bounds its operators"
    axis = charts.Axis(f"time{_at_least(rows)}", "s")
    return Section.charted(
        title, charts.StackedBars(labels, parts, axis), Table(head=head, rows=cells)
    )


def _at_least(rows: Rows) -> str:
    """Return which scenarios have lower limits of times, "" for none."""
    names = [row["label"] for row in rows if limit_note(str(row.get("tier") or ""))]
    return f", at least for {', '.join(names)}" if names else ""


def _by_operator(phase: str, compared: Row, base: Row, differences: Rows) -> Section:
    """Return the operators that make a phase longer or shorter than that of the first scenario."""
    label, tiers = compared["label"], (str(record.get("tier") or "") for record in (compared, base))
    note = comparison_note(*tiers)
    own = [row for row in differences if (row["label"], row["phase"]) == (label, phase)]
    total = sum(row["difference_s"] for row in own)
    differs = abs(total) > ROUNDING * sum(row["time_s"] for row in own)
    moved = [row for row in own if row["difference_s"]]
    beside = f" ({note})" if note else ""
    title = f"{PHASE_TITLES.get(phase, phase)} of {label}, by operator{beside}"
    if not moved:
        return Section(title=title, blocks=["Every operator takes the same time."])
    bars = [
        charts.Bar(
            row["name"],
            row["difference_s"],
            _signed(row),
            charts.GREEN if row["difference_s"] < 0 else charts.ORANGE,
        )
        for row in moved[:MAX_BARS]
    ]
    columns: dict[str, Any] = {
        "operator": "name",
        "first": "base_time_s",
        label: "time_s",
        "difference": _signed,
        "share of it": lambda row: format_share(row["difference_s"] / total) if differs else "-",
        "first bound by": lambda row: str(row["base_bound"] or "-"),
        "bound by": lambda row: str(row["bound"] or "-"),
    }
    table = Table.of(moved, columns, ("operator", "first bound by", "bound by"))
    return Section.charted(
        title, charts.BarChart(bars, charts.Axis("difference of time", "s")), table
    )
