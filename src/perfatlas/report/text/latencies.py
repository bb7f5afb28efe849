"""Latency distributions, slowest requests, and kinds of replicas."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.answer import limit_note
from perfatlas.report.text.breakdown import bound_summary, phases_of
from perfatlas.report.text.quantities import (
    MISSING,
    format_interval,
    format_share,
    format_value,
    metric_text,
)
from perfatlas.report.text.rows import label_of
from perfatlas.report.text.terminal import print_line, print_plain
from perfatlas.vocabulary.metrics import METRICS, STATISTICS, stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from perfatlas.vocabulary.metrics import Metric

LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
SHOWN_STATISTICS: Final = ("mean", "p99")
BEFORE: Final = ("requests", "request_share")
AFTER: Final = ("utilization", "output_tokens_per_s_per_gpu", "kv_capacity_tokens")
KIND_BRIEF: Final = ("request_share", "utilization", "output_tokens_per_s_per_gpu")


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
    return rows + _cells(kinds, KIND_BRIEF)


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


MIN_SHARE: Final = 0.005
NO_BREAK: Final = "\u00a0"
TAIL: Final = 0.01  # of the requests
SHOWN_PARTS: Final = 2  # parts of a brief answer
GAP: Final = 2
INTERVAL: Final = "90% (mean)"
SAMPLING: Final = "  ± (90%)"
# in a brief answer
BRIEF: Final = ("ttft_s", "tpot_s", "request_latency_s", "session_time_s")
OMITTED_FIRST: Final = (INTERVAL, "p95", "p90", "p50")  # omitted in this order on narrow terminals


def distributions(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the results that are distributions, without interval ends.

    Example:
        >>> from perfatlas.report.text import distributions
        >>> list(distributions({"ttft_s": {"mean": 1.0, "p99": 2.0}, "steps": 3}))
        ['ttft_s']
    """
    return {
        name: value
        for name, value in results.items()
        if isinstance(value, dict)
        and "p99" in value
        and stem_of(name) == name
        and any(statistic is not None for statistic in value.values())
    }


def print_distributions(
    console: Console,
    results: Mapping[str, Any],
    *,
    limits: Mapping[str, str] | None = None,
    brief: bool = False,
) -> None:
    """Write mean and percentiles of every distribution, and the 90% interval of its mean.

    Columns that do not fit are omitted and named below: first the interval, then percentiles.

    Args:
        limits: From `limits_of`: name -> "at least" if all statistics are limits.
    """
    from rich.table import Table

    brief_names = BRIEF if "kind_1" in results else (*BRIEF, "itl_s")
    names = [name for name in distributions(results) if not brief or name in brief_names]
    rows = [row for name in names for row in _rows(results, name, (limits or {}).get(name, ""))]
    if not rows:
        return
    titles = ["", *STATISTICS, INTERVAL]
    widths = {
        title: max(len(title), *(len(row[column]) for row in rows))
        for column, title in enumerate(titles)
    }
    omitted = []
    for title in OMITTED_FIRST:
        if sum(widths.values()) + GAP * (len(widths) - 1) > console.width:
            omitted.append(title)
            del widths[title]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for title in widths:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for row in rows:
        cells = [cell for title, cell in zip(titles, row, strict=True) if title in widths]
        table.add_row(*cells, style="dim" if row[0] == SAMPLING else "")
    print_plain(console, table)
    if omitted:
        print_line(console, f"a wider terminal or --json shows {', '.join(omitted)}", style="dim")
    if not (brief and is_printed(results)):
        console.print()


def is_printed(results: Mapping[str, Any]) -> bool:
    """Return whether a brief answer has lines for tails; with kinds, the table has them."""
    return bool(tails(results)) and "kind_1" not in results


def _rows(results: Mapping[str, Any], name: str, limit: str) -> list[list[str]]:
    """Return the cells of a distribution: statistics and interval, and half-widths over seeds."""
    values = results[name]
    cells = [format_value(name, values[statistic]) for statistic in STATISTICS]
    label = label_of(name, short=True)
    rows = [
        [f"  {label}, {limit}" if limit else f"  {label}", *cells, mean_interval(results, name)]
    ]
    if width := results.get(f"{name}_seed_half_width"):
        cells = [format_value(name, width[statistic]) for statistic in STATISTICS]
        rows.append([SAMPLING, *cells, ""])
    return rows


def mean_interval(results: Mapping[str, Any], name: str) -> str:
    """Return the interval of a mean, "≥" and the lower end without an upper end, "-" of none.

    Args:
        results: Distributions by name, with those of `_low` and `_high`.

    Example:
        >>> from perfatlas.report.text import mean_interval
        >>> mean_interval({"ttft_s_low": {"mean": 0.5}}, "ttft_s")
        '≥ 500 ms'
    """
    low, high = ((results.get(f"{name}_{end}") or {}).get("mean") for end in ("low", "high"))
    if low is not None and high is not None:
        return format_interval(name, low, high)
    return "-" if low is None else f"≥ {format_value(name, low)}"


def stability_line(results: Mapping[str, Any], limits: Mapping[str, str] | None = None) -> str:
    """Return the load, the capacity and the measured requests in a line, "" without a capacity.

    Args:
        limits: From `limits_of`: in tier bound the capacity is "at most" that.

    Example:
        >>> from perfatlas.report.text.latencies import stability_line
        >>> found = {"stability": "stable", "offered_load": 0.77, "capacity_requests_per_s": 19.5}
        >>> stability_line({**found, "measured_requests": 7523})
        'stable: 77% of the capacity, 19.5 requests/s; 7,523 requests measured'
        >>> limits = {"capacity_requests_per_s": "at most", "offered_load": "at least"}
        >>> stability_line({**found, "measured_requests": 7523}, limits)
        'stable: at least 77% of the capacity, at most 19.5 requests/s; 7,523 requests measured'
    """
    if "stability" not in results:
        return ""
    share = format_share(float(results["offered_load"]))
    capacity = format_value("capacity_requests_per_s", results["capacity_requests_per_s"])
    limits = limits or {}
    share = f"{limits.get('offered_load', '')} {share}".lstrip()
    capacity = f"{limits.get('capacity_requests_per_s', '')} {capacity}".lstrip()
    stable = results["stability"]
    if "stable_probability" in results:
        stable += f" (P = {format_share(results['stable_probability'])})"
    line = f"{stable}: {share} of the capacity, {capacity} requests/s"
    if "measured_requests" not in results:
        count = format_value("requests_completed", results.get("requests_completed", 0))
        warm_up = format_value("warm_up_requests", results.get("warm_up_requests", 0))
        return f"{line}; {count} requests, the first {warm_up} warm-up"
    measured = format_value("measured_requests", results["measured_requests"])
    return f"{line}; {measured} requests measured"


class LatencyPart(NamedTuple):
    """A cause of the latency of slow requests."""

    name: str  # Key of the cause
    label: str
    value: str
    share: float  # Fraction of their latency


class Tail(NamedTuple):
    """The slowest requests by one metric."""

    metric: str  # Name of the result
    value: str  # Their mean with its unit
    parts: tuple[LatencyPart, ...]  # Causes, largest first, without empty ones


def tails(results: Mapping[str, Any]) -> list[Tail]:
    """Return the latency of the slowest requests by cause, for TTFT and end-to-end latency.

    Example:
        >>> from perfatlas.report.text import tails
        >>> tail, = tails({"tail_ttft_s": {"http": 0.0, "queue": 0.75, "prompt": 0.25}})
        >>> tail.value, [(part.label, part.share) for part in tail.parts]
        ('1.00 s', [('queue', 0.75), ('own prefill', 0.25)])
    """
    slowest = []
    for name in ("ttft_s", "request_latency_s"):
        parts = results.get(f"tail_{name}") or {}
        total = sum(parts.values())
        if not total:
            continue
        labels = METRICS[f"tail_{name}"].parts
        ranked = sorted(parts.items(), key=lambda part: part[1], reverse=True)
        shown = tuple(
            LatencyPart(part, labels[part], format_value(name, value), value / total)
            for part, value in ranked
            if value > 0.0
        )
        slowest.append(Tail(name, format_value(name, total), shown))
    return slowest


def tail_title(results: Mapping[str, Any], tail: Tail) -> str:
    """Return the title of a tail: its requests and their latency.

    Args:
        tail: One of its `tails`.
    """
    few = round(TAIL * (results.get("requests_completed") or 0)) <= 1
    which = "slowest request" if few else "slowest 1%"
    return f"{which} by {label_of(tail.metric, short=True)}, {tail.value}"


def print_tail(console: Console, results: Mapping[str, Any], *, brief: bool = False) -> None:
    """Write the causes of tail latency, one line per metric."""
    for tail in tails(results):
        if brief:
            largest = ", ".join(
                f"{part.label} {format_share(part.share)}" for part in tail.parts[:SHOWN_PARTS]
            )
            print_line(console, f"{tail_title(results, tail)}: {largest}")
            continue
        text = ", ".join(
            f"{part.label} {part.value.replace(' ', NO_BREAK)} ({format_share(part.share)})"
            for part in tail.parts
            if part.share >= MIN_SHARE
        )
        title = tail_title(results, tail)
        title = title.replace(tail.value, tail.value.replace(" ", NO_BREAK))
        for line in textwrap.wrap(f"{title}: {text}", console.width):
            print_line(console, line.replace(NO_BREAK, " "))
    console.print()
