"""Text output of `kernel design`: the time, then what limits it and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report.text import (
    format_number,
    format_value,
    print_closing,
    print_question,
    print_results,
    print_rows,
    share_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


def print_design(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a kernel under design to a console.

    Args:
        console: Console from `open_terminal`.
        answer: The `--json` object.
        reproduce: The command line that reproduces it.
        verbose: Whether to print all evidence.
    """
    results = answer["results"]
    print_question(console, answer)
    print_results(console, {k: v for k, v in results.items() if not isinstance(v, list)})
    console.print()
    units = [
        {
            "unit": row["unit"],
            "cycles": format_number(row["cycles"]),
            "share": share_text(row["share"]),
        }
        for row in results["units"]
    ]
    print_rows(console, units, title="mean work of each unit for a tile")
    changes = [
        {
            "change": row["change"],
            "time": format_value("time_s", row["time_s"]),
            "speedup": "" if row["speedup"] is None else f"{row['speedup']:.2f}x",
            "limiting unit": row["limiting_unit"] or f"impossible: {row['reason']}",
        }
        for row in results["what_if"]
    ]
    print_rows(console, changes, title="what if")
    print_closing(
        console,
        answer,
        reproduce=reproduce,
        method="pipeline model: warpgroups as programs on the units of an SM",
        covered=answer["evidence"]["assumptions"][0],
        verbose=verbose,
    )
