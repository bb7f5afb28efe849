"""Results of the kinds of replicas, one column per kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import limit_note
from perfatlas.report.text.breakdown import bound_summary, phases_of
from perfatlas.report.text.quantities import MISSING, format_value, metric_text
from perfatlas.report.text.rows import label_of
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from perfatlas.vocabulary.metrics import Metric

GAP: Final = 2
LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
SHOWN_STATISTICS: Final = ("mean", "p99")
BEFORE: Final = ("requests", "request_share")
AFTER: Final = ("utilization", "output_tokens_per_s_per_gpu", "kv_capacity_tokens")
BRIEF: Final = ("request_share", "utilization", "output_tokens_per_s_per_gpu")


def kinds_of(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the results of each kind of replicas by "kind 1" and so on, empty for a single one."""
    return {
        name.replace("_", " "): value
        for name, value in results.items()
        if re.fullmatch(r"kind_\d+", name) and isinstance(value, dict)
    }


def kind_rows(kinds: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return rows of a table of kinds: a label, then one cell per kind; the first two are headings.

    Example:
        >>> from perfatlas.report.text import kind_rows
        >>> rows = kind_rows({"kind 1": {"replicas": 2, "gpus": 8, "system": "h200_sxm"}})
        >>> rows[:2]
        [['', 'kind 1'], ['', '2 x 4 h200_sxm']]
    """
    engines = {kind.get("engine") for kind in kinds.values()}
    rows = [["", *kinds], ["", *(kind_name(kind) for kind in kinds.values())]]
    if len(engines) > 1:
        rows.append(["engine", *(str(kind.get("engine")) for kind in kinds.values())])
    rows += _tier_rows(kinds)
    rows += _cells(kinds, BEFORE)
    for name in LATENCIES:
        for key in SHOWN_STATISTICS:
            values = [(kind.get(name) or {}).get(key) for kind in kinds.values()]
            cells = [format_value(name, value) for value in values]
            rows.append([f"{label_of(name, short=True)}, {key}", *cells])
    return rows + _cells(kinds, AFTER)


def brief_rows(kinds: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the most important rows of `kind_rows`."""
    rows = [["", *kinds], ["", *(kind_name(kind) for kind in kinds.values())], *_tier_rows(kinds)]
    for name in LATENCIES[:2]:
        cells = [format_value(name, (kind.get(name) or {}).get("p99")) for kind in kinds.values()]
        rows.append([f"{label_of(name, short=True)}, p99", *cells])
    return rows + _cells(kinds, BRIEF)


def _tier_rows(kinds: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return a row that tells limits from predictions, where the kinds have both."""
    notes = [limit_note(str(kind.get("tier") or "")) for kind in kinds.values()]
    return [["times", *(note or "prediction" for note in notes)]] if len(set(notes)) > 1 else []


def _step_rows(kinds: Sequence[str], breakdown: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return one row per phase: step time of each kind, and its main bound."""
    phases = phases_of(breakdown)
    steps = dict.fromkeys(
        phase.removeprefix(f"{kind} ") for kind in kinds for phase in phases if kind in phase
    )
    return [
        [f"{step} step", *(_step_cell(phases.get(f"{kind} {step}") or []) for kind in kinds)]
        for step in steps
    ]


def _step_cell(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return MISSING
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    return f"{format_value('time_s', time_s)} {bound_summary(rows).split()[0]}"


def _cells(kinds: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> list[list[str]]:
    rows = []
    for name in names:
        metric = METRICS.get(f"kind.{name}") or METRICS[name]
        rows.append([metric.label, *(_cell(metric, kind.get(name)) for kind in kinds.values())])
    return rows


def kind_name(kind: Mapping[str, Any]) -> str:
    """Return "2 x 4 h200_sxm": replicas, GPUs per replica, and the system."""
    replicas = int(kind["replicas"])
    return f"{replicas} x {int(kind['gpus']) // replicas} {kind['system']}"


def _cell(metric: Metric, value: float | None) -> str:
    return MISSING if value is None else metric_text(metric, value)


def print_kinds(
    console: Console,
    results: Mapping[str, Any],
    *,
    breakdown: Sequence[Mapping[str, Any]] = (),
    brief: bool = False,
) -> None:
    """Write a table of kinds, in blocks that fit; nothing for a single kind."""
    from rich.table import Table

    kinds = kinds_of(results)
    if not kinds:
        return
    rows = brief_rows(kinds) if brief else kind_rows(kinds)
    rows += _step_rows(list(kinds), breakdown)
    widths = [max(len(row[column]) for row in rows) + GAP for column in range(len(rows[0]))]
    columns = list(range(1, len(widths)))
    while columns:
        room = console.width - widths[0] - GAP
        block: list[int] = []
        while columns and (not block or widths[columns[0]] <= room):
            room -= widths[columns[0]]
            block.append(columns.pop(0))
        console.print()
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
        table.add_column("", no_wrap=True)
        for index in block:
            table.add_column(rows[0][index], justify="right")
        for cells in rows[1:]:
            table.add_row(f"  {cells[0]}", *(cells[index] for index in block))
        print_plain(console, table)
        if brief and columns:
            omitted = ", ".join(rows[0][column] for column in columns)
            print_line(console, f"  --verbose shows {omitted}", style="dim")
            break
