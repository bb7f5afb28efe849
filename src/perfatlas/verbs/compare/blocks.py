"""What a comparison shows: results side by side, and what differs."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import comparison_note, limit_note
from perfatlas.report import charts, pages, text
from perfatlas.verbs.compare.metrics import ACCURACY, CARBON, FACILITY, PASSES, RATED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Row = Mapping[str, Any]
    Rows = Sequence[Row]
    Ratios = Mapping[tuple[str, str], Row]  # by scenario and metric
    Column = str | Callable[[Row], str]

# of the text: networks with tokens; of key numbers: also passes of graphs
SHOWN: Final = ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "energy_per_output_token_j")
VALUES: Final = (*SHOWN[:3], "latency_s", "throughput_per_s")
PICTURED: Final = (
    "output_tokens_per_s_per_gpu",
    "usd_per_million_output_tokens",
    "energy_per_output_token_j",
)
MAX_OPERATORS: Final = 3  # of a brief answer; 2 of each of several scenarios
LIMITS: Final = "≥ at least, ≤ at most: at the roofline, as kernels are not measured"
OPEN: Final = "~"  # after a ratio
OPEN_NOTE: Final = "~ not certain: the 90% interval of the ratio includes 1"
SOLVED: Final = "equal="  # an override whose solved value the label does not show
MAX_TITLE: Final = 60  # letters of the labels in it
ROUNDING: Final = 1e-9  # of a difference, relative to the times
MAX_BARS: Final = 12
MAX_SCENARIOS: Final = 8  # whose differences a brief answer and a page show
LABEL: Final = "label"
DESIGNS: Final = 2
BEST: Final = "output_tokens_per_s_per_gpu"  # objective of a search by default


def comparison_page(answer: Row, *, reproduce: str) -> pages.Page:
    """Return a comparison: results side by side, and what makes steps longer or shorter."""
    results = answer["results"]
    rows, differences = results["rows"], results["differences"]
    scenarios = answer["scenario"]["scenarios"]
    ratios = {(row["label"], row["metric"]): row for row in results["ratios"]}
    answered = [row for row in rows if row["error"] is None]
    phases = dict.fromkeys(row["phase"] for row in differences)
    models = dict.fromkeys(str(scenario.get("model")) for scenario in scenarios)
    named = all(
        str(scenario.get("model")).partition("{")[0] in scenario["label"] for scenario in scenarios
    )
    others = ", ".join(row["label"] for row in rows[1:])
    others = others if len(others) <= MAX_TITLE else f"{len(rows) - 1} others"
    solved = [f"{one['label']} is {one['model']}" for one in scenarios if SOLVED in one["label"]]
    return pages.answer_page(
        answer,
        [
            *_deployments(rows),
            *_results(rows, ratios),
            *(
                pages.Section(blocks=lines, on=on, is_detail=on == "terminal")
                for on, lines in (
                    (
                        "brief",
                        _difference_lines(rows, differences, MAX_OPERATORS - (len(rows) > DESIGNS)),
                    ),
                    ("terminal", _difference_lines(rows, differences)),
                )
                if lines
            ),
            *_decisions(results),
            *_pictures(answered),
            *(_by_bound(phase, answered, differences) for phase in phases),
            *(
                _by_operator(phase, row, rows[0], differences)
                for row in answered[1 : MAX_SCENARIOS + 1]
                for phase in phases
            ),
        ],
        title=f"{rows[0]['label']} compared with {others}",
        lines=[
            *([] if named else [", ".join(models)]),
            *_equal_lines(rows, scenarios),
            *solved,
        ],
        values=_values(answered, ratios),
        reproduce=reproduce,
    )


def _deployments(rows: Rows) -> list[pages.Section]:
    """Return what differs of engine, plan and load, as a table of a terminal."""
    columns = {name: column for name, column in DEPLOYMENT.items() if _varies(rows, column)}
    if not columns:
        return []
    table = pages.Table.of(
        rows, {"scenario": LABEL, **columns}, ("scenario", "engine", "plan"), optional=()
    )
    return [pages.Section(blocks=[table], on="terminal")]


def _results(rows: Rows, ratios: Ratios) -> list[pages.Section]:
    """Return the results: a page has all side by side, a terminal a table of each subject."""
    columns: dict[str, Column] = {
        "scenario": LABEL,
        "GPUs": lambda row: f"{row['gpus']:,}" if row["error"] is None else "-",
        **DEPLOYMENT,
        **_columns(rows, ratios, (*RATED, *ACCURACY), whole=True),
    }
    tiers = [str(row.get("tier") or row["error"]) for row in rows]
    if len(set(tiers)) > 1:
        columns["tier"] = lambda row: str(row.get("tier") or row["error"])
    table = pages.Table.of(rows, columns, ("scenario", "engine", "plan", "tier"))
    found = [
        pages.Table.of(rows, {"scenario": LABEL, **own}, ("scenario",), optional=())
        for names in (PASSES, SHOWN, FACILITY, CARBON, ACCURACY)
        if (own := _columns(rows, ratios, names))
    ]
    limits = [LIMITS] if any(row.get("tier_note") for row in rows) else []
    return [
        pages.Section(blocks=[*found, *limits, *_open_note(found)], on="terminal"),
        pages.Section(
            title="Results, and the ratio to the first",
            blocks=[table, *_open_note([table])],
            on="page",
        ),
    ]


def _open_note(tables: Sequence[pages.Table]) -> list[str]:
    """Return what the mark of ratios around 1 means, if one has it."""
    cells = (cell for table in tables for row in table.rows for cell in row[1:])
    return [OPEN_NOTE] if any(OPEN in cell for cell in cells) else []


def _decisions(results: Row) -> list[pages.Section]:
    """Return the measurements that would most change which design is faster, if asked."""
    if "decisions" not in results:
        return []
    difference_s = results["steps_difference_s"]
    faster = results["rows"][0 if difference_s > 0.0 else 1]["label"]
    size, deviation = (
        text.format_value("time_s", one)
        for one in (abs(difference_s), results["steps_difference_deviation_s"])
    )
    note = (
        f"steps of a request: {faster} is faster by {size}, standard deviation {deviation};"
        " measurements that would most reduce it:"
    )
    lines: list[pages.Block] = [note]
    for number, row in enumerate(results["decisions"], 1):
        interval = text.interval_text(row, "time_s")
        time = f"{text.format_value('time_s', row['time_s'])} ({interval})"
        told = f"{number}. {row['case']} on {row['system']}: {time}"
        told += f", {text.share_text(row['variance_share'])} of variance"
        reason = [row["reason"]] if row["reason"] else []
        operators = [row["operators"]] if row["operators"] else []
        lines.append(pages.Note("; ".join([told, *operators, *reason]), "; ".join([told, *reason])))
    return [pages.Section(title="Decisive measurements", blocks=lines)]


def _columns(
    rows: Rows, ratios: Ratios, names: Sequence[str], *, whole: bool = False
) -> dict[str, Callable[[Row], str]]:
    """Return columns of the metrics that the first scenario has, each with its ratio to it."""
    item = text.item_of(rows)
    return {
        text.label_of(name, short=True, item=item): partial(
            _cell, base=rows[0], ratios=ratios, name=name, whole=whole
        )
        for name in names
        if rows[0].get(name) is not None
    }


def _cell(row: Row, base: Row, ratios: Ratios, name: str, *, whole: bool = False) -> str:
    """Return a metric with its ratio to that of the base, if it has one.

    Args:
        whole: Whether the ratio has its interval.
    """
    value = row.get(name)
    if value is None:
        return "-"
    limit, of_base = (
        text.limits_of(record, tier=str(record.get("tier") or "")).get(name, "")
        for record in (row, base)
    )
    shown = text.limited_text(text.format_value(name, value), limit)
    found = ratios.get((row["label"], name))
    if found is None:
        return shown
    ratio = text.ratio_text(found["ratio"], 1.0, limit=limit, base_limit=of_base)
    low, high = found["ratio_low"], found["ratio_high"]
    if low is None and high is None:
        return f"{shown} {ratio}"
    ends = f" ({low:.2f} to {math.inf if high is None else high:.2f})" if whole else ""
    return f"{shown} {ratio}{'' if found['certain'] else OPEN}{ends}"


def _varies(rows: Rows, column: Callable[[Row], str]) -> bool:
    return len({column(row) for row in rows if row["error"] is None}) > 1


DEPLOYMENT: Final = {
    "engine": lambda row: str(row.get("engine") or "-"),
    "plan": lambda row: str(row.get("plan") or "-"),
    "sequences": lambda row: f"{row['concurrency']:,}" if row.get("concurrency") else "-",
}


def _equal_lines(rows: Rows, scenarios: Rows) -> list[str]:
    """Return in what the scenarios are equal, SLOs or plan and load, and in what they differ."""
    differ = [name for name, column in DEPLOYMENT.items() if _varies(rows, column)]
    sizes = {row["gpus"] for row in rows if row["error"] is None}
    counts = f"{' or '.join(f'{count:,}' for count in sorted(sizes))} GPUs"
    lines = []
    slos = {_slos(one) for one in scenarios if text.objective_texts(one)}
    if slos:
        under = slos.pop() if len(slos) == 1 else "its SLOs"
        ranked = {str(one.get("objective", BEST)) for one in scenarios}
        names = ranked.pop().split(",") if len(ranked) == 1 else ()
        by = " and ".join(text.label_of(name, short=True) for name in names) or "its objective"
        lines.append(f"each at its best plan for {by} under {under} on {counts}, by closed forms")
    elif differ:
        what = {"engine": "engines", "plan": "plans", "sequences": "sequences in flight"}
        named = " and ".join(what[name] for name in differ)
        remedies = {"plan": "set tp, pp and dp to compare alike", "sequences": "set concurrency"}
        advised = [remedies[name] for name in differ if name in remedies]
        lines.append("; ".join((f"{named} differ", *advised[:1])))
    if not differ or (slos and "plan" not in differ):
        words = [f"all on plan {rows[0]['plan']}"]
        if rows[0]["concurrency"] and "sequences" not in differ:
            words.append(f"{rows[0]['concurrency']:,} sequences in flight")
        lines.append(", ".join(words))
    if len(sizes) > 1:
        load = "different loads" if "sequences" in differ else "equal load"
        lines.append(f"{counts}: {load} per deployment, rates per GPU")
    return lines


def _slos(scenario: Row) -> str:
    """Return the SLOs of a scenario and the probability with which its plan meets them."""
    told = ", ".join(text.objective_texts(scenario))
    probability = scenario.get("min_slo_probability")
    return (
        told if probability is None else f"{told} with a probability of at least {probability:.0%}"
    )


def _difference_lines(rows: Rows, differences: Rows, most: int | None = None) -> list[str]:
    """Return a line per scenario and phase: both steps, and the operators that differ most.

    Args:
        most: Number of operators, for the first scenarios; None for all of all.
    """
    lines = []
    others = rows[1:] if most is None else rows[1 : MAX_SCENARIOS + 1]
    for row in others:
        if row["error"] is not None:
            lines.append(f"{row['label']}: {row['error']}")
            continue
        own = [one for one in differences if one["label"] == row["label"]]
        note = f" ({row['tier_note']})" if row["tier_note"] else ""
        for phase, operators in text.rows_by_phase(own).items():
            before, after = (
                text.format_value("time_s", sum(one[key] for one in operators))
                for key in ("base_time_s", "time_s")
            )
            parts = [_operator_text(one) for one in operators[:most] if one["difference_s"]]
            work = phase if phase in ("prefill", "pass") else f"{phase} step"
            lines.append(
                f"{row['label']}, {work} {before} -> {after}{note}:"
                f" {'; '.join(parts) or 'the same'}"
            )
    if left := len(rows) - 1 - len(others):
        lines.append(f"--verbose shows {left} more")
    return lines


def _operator_text(row: Row) -> str:
    bounds = dict.fromkeys(one for one in (row["base_bound"], row["bound"]) if one)
    return f"{row['name']} {_signed(row)} ({' -> '.join(bounds)})"


def _signed(row: Row) -> str:
    sign = "-" if row["difference_s"] < 0 else "+"
    return f"{sign}{text.format_value('time_s', abs(row['difference_s']))}"


def _values(rows: Rows, ratios: Ratios) -> list[text.Value]:
    """Return the key metrics of the first scenarios, relative to the base."""
    base = rows[0]
    return [
        text.Value(
            f"{text.label_of(name, short=True, item=text.item_of(rows))}, {row['label']}",
            _cell(row, base, ratios, name),
            text.interval_text(row, name) if f"{name}_low" in row else "",
        )
        for name in VALUES
        for row in rows[:2]
        if row.get(name) is not None
    ]


def _pictures(rows: Rows) -> list[pages.Section]:
    """Return rate, cost and energy of the scenarios as bars, where all have them."""
    if len(rows) < DESIGNS:
        return []
    by_label = {row["label"]: row for row in rows}
    return [
        pages.compared_section(name, by_label, f"{text.label_of(name)} by scenario")
        for name in PICTURED
        if all(row.get(name) for row in rows)
    ]


def _by_bound(phase: str, rows: Rows, differences: Rows) -> pages.Section:
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
    known = {name for found in times.values() for name in found}
    others = sorted(known - charts.BOUND_COLOURS.keys())
    parts = [
        charts.BarPart(
            name,
            [times[label].get(name, 0.0) for label in labels],
            [text.format_value("time_s", times[label].get(name, 0.0)) for label in labels],
            charts.BOUND_COLOURS.get(name, charts.GREY),
        )
        for name in (*(name for name in charts.BOUND_COLOURS if name in known), *others)
    ]
    columns = {
        "scenario": labels,
        **{part.name: part.texts for part in parts},
        "all": [text.format_value("time_s", sum(times[label].values())) for label in labels],
    }
    table = pages.Table(head=tuple(columns), rows=list(zip(*columns.values(), strict=True)))
    title = f"{pages.PHASE_TITLES.get(phase, phase)} by what bounds its operators"
    chart = charts.StackedBars(labels, parts, charts.Axis(f"time{_at_least(rows)}", "s"))
    return pages.Section.charted(title, chart, table, on="page")


def _at_least(rows: Rows) -> str:
    """Return which scenarios have lower limits of times, "" for none."""
    names = [row["label"] for row in rows if limit_note(str(row.get("tier") or ""))]
    return f", at least for {', '.join(names)}" if names else ""


def _by_operator(phase: str, compared: Row, base: Row, differences: Rows) -> pages.Section:
    """Return the operators that make a phase longer or shorter than that of the first scenario."""
    label, tiers = compared["label"], (str(record.get("tier") or "") for record in (compared, base))
    note = comparison_note(*tiers)
    own = [row for row in differences if (row["label"], row["phase"]) == (label, phase)]
    total = sum(row["difference_s"] for row in own)
    differs = abs(total) > ROUNDING * sum(row["time_s"] for row in own)
    moved = [row for row in own if row["difference_s"]]
    beside = f" ({note})" if note else ""
    title = f"{pages.PHASE_TITLES.get(phase, phase)} of {label}, by operator{beside}"
    if not moved:
        return pages.Section(title=title, blocks=["Every operator takes the same time."], on="page")
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
        "share of it": lambda row: (
            text.format_share(row["difference_s"] / total) if differs else "-"
        ),
        "first bound by": lambda row: str(row["base_bound"] or "-"),
        "bound by": lambda row: str(row["bound"] or "-"),
    }
    table = pages.Table.of(moved, columns, ("operator", "first bound by", "bound by"))
    chart = charts.BarChart(bars, charts.Axis("difference of time", "s"))
    return pages.Section.charted(title, chart, table, on="page")
