"""HTML page of a comparison: results side by side, and what makes the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import comparison_note, limit_note
from perfatlas.report.charts import (
    BOUND_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    Axis,
    Bar,
    BarChart,
    BarPart,
    StackedBars,
)
from perfatlas.report.pages import Section, Table, Value, answer_page
from perfatlas.report.text import (
    format_share,
    format_value,
    interval_text,
    item_of,
    label_of,
    limited_text,
    limits_of,
    ratio_text,
)
from perfatlas.verbs.compare.metrics import COMPARED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages import Page

    Rows = Sequence[Mapping[str, Any]]

# of language models, and of passes of graphs
VALUES: Final = ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu", "latency_s", "throughput_per_s")
PHASES: Final = {"prefill": "Prefill", "decode": "Decode step", "pass": "Pass"}
ROUNDING: Final = 1e-9  # of a difference, relative to the times
MOST_BARS: Final = 12
MOST_SCENARIOS: Final = 8


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
        subtitle=", ".join(models),
        values=_values(answered),
        sections=[
            _results(rows),
            *(_by_bound(phase, answered, differences) for phase in phases),
            *(
                _by_operator(phase, row["label"], differences, _note(row, rows[0]))
                for row in answered[1 : MOST_SCENARIOS + 1]
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


def _cell(row: Mapping[str, Any], base: Mapping[str, Any], name: str) -> str:
    """Return a metric with its ratio to that of the base."""
    value = row.get(name)
    if value is None:
        return "-"
    tiers = (str(one.get("tier") or "") for one in (row, base))
    limit, own = (
        limits_of(one, tier=tier).get(name, "")
        for one, tier in zip((row, base), tiers, strict=True)
    )
    text = limited_text(format_value(name, value), limit)
    if row is base or base.get(name) is None:
        return text
    return f"{text} {ratio_text(value, base[name], limit=limit, base_limit=own)}"


def _results(rows: Rows) -> Section:
    """Return the results side by side; a scenario without an answer has its error."""
    base = rows[0]
    names = [name for name in COMPARED if base.get(name) is not None]
    head = [
        "scenario",
        "GPUs",
        *(label_of(name, short=True, item=item_of(rows)) for name in names),
        "tier",
    ]
    cells = [
        [
            row["label"],
            f"{row['gpus']:,}" if row["error"] is None else "-",
            *(_cell(row, base, name) for name in names),
            str(row.get("tier") or row["error"]),
        ]
        for row in rows
    ]
    table = Table(head=head, rows=cells, text_columns=(0, len(head) - 1))
    return Section(title="Results, and the ratio to the first", blocks=[table])


def _by_bound(phase: str, rows: Rows, differences: Rows) -> Section:
    """Return the time of a phase in every scenario, divided by what bounds its operators."""
    labels = [row["label"] for row in rows]
    times: dict[str, dict[str, float]] = {label: {} for label in labels}
    own = [row for row in differences if row["phase"] == phase]
    for row in own:
        if row["label"] == own[0]["label"]:  # each scenario has the times of the first
            _add(times[labels[0]], row["base_bound"], row["base_time_s"])
        _add(times[row["label"]], row["bound"], row["time_s"])
    bounds = [name for name in BOUND_COLOURS if any(name in found for found in times.values())]
    others = {name for found in times.values() for name in found} - set(BOUND_COLOURS)
    parts = [
        BarPart(
            name,
            [times[label].get(name, 0.0) for label in labels],
            [format_value("time_s", times[label].get(name, 0.0)) for label in labels],
            BOUND_COLOURS.get(name, GREY),
        )
        for name in (*bounds, *sorted(others))
    ]
    head = ("scenario", *(part.name for part in parts), "all")
    cells = [
        [
            label,
            *(part.texts[place] for part in parts),
            format_value("time_s", sum(times[label].values())),
        ]
        for place, label in enumerate(labels)
    ]
    title = f"{PHASES.get(phase, phase)} by what bounds its operators"
    axis = Axis(f"time{_at_least(rows)}", "s")
    return Section.charted(title, StackedBars(labels, parts, axis), Table(head=head, rows=cells))


def _add(found: dict[str, float], bound: str | None, time_s: float) -> None:
    if bound is not None:
        found[bound] = found.get(bound, 0.0) + time_s


def _note(row: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """Return that a limit stands beside a prediction, in parentheses, "" for equal tiers."""
    note = comparison_note(*(str(one.get("tier") or "") for one in (row, base)))
    return f" ({note})" if note else ""


def _at_least(rows: Rows) -> str:
    """Return which scenarios have lower limits of times, "" for none."""
    names = [row["label"] for row in rows if limit_note(str(row.get("tier") or ""))]
    return f", at least for {', '.join(names)}" if names else ""


def _by_operator(phase: str, label: str, differences: Rows, note: str) -> Section:
    """Return the operators that make a phase longer or shorter than that of the first scenario."""
    own = [row for row in differences if (row["label"], row["phase"]) == (label, phase)]
    total = sum(row["difference_s"] for row in own)
    differs = abs(total) > ROUNDING * sum(row["time_s"] for row in own)
    moved = [row for row in own if row["difference_s"]]
    title = f"{PHASES.get(phase, phase)} of {label}, by operator{note}"
    if not moved:
        return Section(title=title, blocks=["Every operator takes the same time."])
    bars = [
        Bar(
            row["name"],
            row["difference_s"],
            _signed(row["difference_s"]),
            GREEN if row["difference_s"] < 0 else ORANGE,
        )
        for row in moved[:MOST_BARS]
    ]
    cells = [
        [
            row["name"],
            format_value("time_s", row["base_time_s"]),
            format_value("time_s", row["time_s"]),
            _signed(row["difference_s"]),
            format_share(row["difference_s"] / total) if differs else "-",
            str(row["base_bound"] or "-"),
            str(row["bound"] or "-"),
        ]
        for row in moved
    ]
    head = ("operator", "first", label, "difference", "share of it", "first bound by", "bound by")
    table = Table(head=head, rows=cells, text_columns=(0, 5, 6))
    return Section.charted(title, BarChart(bars, Axis("difference of time", "s")), table)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_value('time_s', abs(seconds))}"
