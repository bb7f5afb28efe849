"""Distributions of latencies: mean and percentiles, and how sure the mean is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.quantities_text import format_interval, format_value
from perfatlas.report.rows import label_of
from perfatlas.report.terminal import print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")
ROOM: Final = 72  # columns, from which on the interval has room


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
        if isinstance(value, dict) and "p99" in value and not name.endswith(("_low", "_high"))
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
    table.add_column("")
    for name in STATISTICS:
        table.add_column(name, justify="right", no_wrap=True)
    wide = console.width >= ROOM
    if wide:
        table.add_column("90 % interval of the mean", justify="right", no_wrap=True)
    for name, values in found.items():
        cells = [format_value(name, values[statistic]) for statistic in STATISTICS]
        ends = [(results.get(f"{name}_{end}") or {}).get("mean") for end in ("low", "high")]
        interval = format_interval(name, *ends) if None not in ends else "-"
        table.add_row(f"  {label_of(name, short=True)}", *cells, *([interval] if wide else []))
    print_plain(console, table)
    console.print()
