"""The frontier of recovery strategies as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import (
    METHODS,
    format_value,
    line_chart,
    print_closing,
    print_line,
    print_plain,
    print_rows,
    share_text,
    speaks_unicode,
    time_text,
)
from perfatlas.verbs.goodput.frontier_metrics import FRONTIER
from perfatlas.verbs.goodput.text import goodput_headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    Answered = Mapping[str, Any]

HEIGHT: Final = 6


def print_strategies(
    console: Console, answer: Answered, *, reproduce: str, verbose: bool = False
) -> None:
    """Write the frontier of recovery strategies to a console.

    Args:
        console: Console from `open_terminal`.
        answer: The `--json` object.
        reproduce: The command line that reproduces it.
        verbose: Whether to print why combinations were skipped, and all evidence.
    """
    results = answer["results"]
    rows = results[FRONTIER]
    print_line(console, goodput_headline({**answer, "command": "goodput"}), style="bold")
    console.print()
    print_rows(console, [_shown(row) for row in rows])
    legend = (
        "goodput: with the half-width of its 90% interval in points; of held: useful share of the"
        " GPU-hours of job and spares"
    )
    print_line(console, legend, style="dim")
    print_line(console, f"best per GPU-hour held: {_named(results['best_strategy'])}")
    print_line(console, f"why: {results['why']}")
    if len(rows) > 1:
        console.print()
        lost = [
            (row["gpus_held"] - results["gpus"], 100.0 * (1.0 - row["goodput"])) for row in rows
        ]
        chart = line_chart(
            [(x, y, "") for x, y in lost],
            titles=(
                "GPUs held beside the job",
                "lost time [%], best strategy at each number of GPUs held",
            ),
            width=console.width,
            unicode=speaks_unicode(console),
            height=HEIGHT,
        )
        print_plain(console, chart)
    skipped = results["strategies_skipped"]
    left_out = sum(row["count"] for row in skipped)
    print_line(
        console,
        f"{results['strategies']:,} strategies simulated,"
        f" {results['strategies_dominated']:,} dominated; {left_out:,} combinations do not apply",
    )
    for row in skipped if verbose else skipped[:2]:
        print_line(console, f"  {row['count']:,}: {row['reason']}")
    method = f"{METHODS['simulate']}, at most {counted(results['replicas'], 'replica')} each"
    print_closing(console, answer, reproduce=reproduce, method=method, verbose=verbose)


def _named(row: Answered) -> str:
    interval = time_text(row["checkpoint_interval_s"])
    return (
        f"{row['response']}, {counted(row['spares'], 'spare')}, {row['checkpoint_levels']} every"
        f" {interval}"
    )


def _shown(row: Answered) -> dict[str, str]:
    """Return a strategy as cells of a table."""
    cells = {
        "GPUs held": f"{row['gpus_held']:,}",
        "spares": f"{row['spares']:,}",
        "policy": str(row["response"]),
        "levels": str(row["checkpoint_levels"]),
        "every": time_text(row["checkpoint_interval_s"]),
        "goodput": f"{share_text(row['goodput'])} ± {100.0 * row['goodput_half_width']:.1g}",
        "of held": share_text(row["useful_share_of_held"]),
    }
    if "usd_per_useful_gpu_hour" in row:
        cells["useful hour"] = format_value(
            "usd_per_useful_gpu_hour", row["usd_per_useful_gpu_hour"]
        )
    return cells
