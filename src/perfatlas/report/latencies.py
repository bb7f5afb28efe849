"""Distributions of latencies: mean and percentiles, and how sure the mean is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.quantities_text import format_interval, format_share, format_value
from perfatlas.report.rows import label_of
from perfatlas.report.terminal import print_line, print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
APART: Final = ("_low", "_high", "_seed_half_width")
SMALLEST_SHARE: Final = 0.005
ROOM: Final = 78  # columns, from which on the interval has room
SEEDS_ROOM: Final = 90  # the same beside half-widths over seeds


def distributions(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the results that are distributions, without the ends of their intervals.

    Args:
        results: The `results` of an answer.

    Example:
        >>> from perfatlas.report.latencies import distributions
        >>> list(distributions({"ttft_s": {"mean": 1.0, "p99": 2.0}, "steps": 3}))
        ['ttft_s']
    """
    return {
        name: value
        for name, value in results.items()
        if isinstance(value, dict) and "p99" in value and not name.endswith(APART)
    }


def print_distributions(console: Console, results: Mapping[str, Any]) -> None:
    """Write mean and percentiles of every distribution, and the 90 % interval of its mean.

    Args:
        console: From `open_terminal`.
        results: The `results` of an answer; `x_low` and `x_high` are the ends of `x`.
    """
    from rich.table import Table

    found = distributions(results)
    if not found:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for name in STATISTICS:
        table.add_column(name, justify="right", no_wrap=True)
    over_seeds = any(f"{name}_seed_half_width" in results for name in found)
    wide = console.width >= (SEEDS_ROOM if over_seeds else ROOM)
    if wide:
        table.add_column("mean in 90 %", justify="right", no_wrap=True)
    for name, values in found.items():
        cells = [format_value(name, values[statistic]) for statistic in STATISTICS]
        low, high = ((results.get(f"{name}_{end}") or {}).get("mean") for end in ("low", "high"))
        interval = "-" if low is None or high is None else format_interval(name, low, high)
        table.add_row(f"  {label_of(name, short=True)}", *cells, *([interval] if wide else []))
        if width := results.get(f"{name}_seed_half_width"):
            cells = [f"± {format_value(name, width[statistic])}" for statistic in STATISTICS]
            table.add_row("  seeds", *cells, *(["90 %"] if wide else []), style="dim")
    print_plain(console, table)
    console.print()


PARTS: Final = {
    "http": "HTTP",
    "tokenize": "tokenizing, with the wait for it",
    "stream": "streaming, with the wait for it",
    "queue": "queue",
    "prompt": "own prompt",
    "shared": "steps shared with others",
    "decode": "own decoding",
    "interference": "prompts of others",
    "preemption": "preemption",
    "transfer": "cache on its way",
    "join": "joining those that decode",
    "failure": "tries that failed",
    "load": "copies from and to the cache below the GPU",
}


def print_tail(console: Console, results: Mapping[str, Any]) -> None:
    """Write what the slowest requests spent their time on, a line per metric.

    Args:
        console: From `open_terminal`.
        results: The `results` of an answer, with `tail_ttft_s` and `tail_request_latency_s`.
    """
    for name in ("ttft_s", "request_latency_s"):
        parts = results.get(f"tail_{name}")
        if not parts:
            continue
        total = sum(parts.values())
        ranked = sorted(parts.items(), key=lambda part: part[1], reverse=True)
        told = ", ".join(
            f"{PARTS[part]} {format_value(name, value)} ({format_share(value / total)})"
            for part, value in ranked
            if value >= SMALLEST_SHARE * total
        )
        label = label_of(name, short=True)
        print_line(console, f"slowest 1 % by {label}, {format_value(name, total)}: {told}")
    console.print()
