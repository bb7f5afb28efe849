"""Text output of `kernel design`: the time, then what limits it and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import (
    format_value,
    print_closing,
    print_line,
    print_question,
    print_results,
    print_rows,
    share_text,
)
from perfatlas.verbs.kernel.metrics import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

IN_ONE_LINE: Final = (
    *TILE.values(),
    "ctas_per_mma",
    "inner_dimension",
    "tiles",
    "tile_cycles",
    "iteration_cycles",
    "flop",
)
CELLS: Final = 48  # of the line of a unit in the timeline
WORKS, WAITS = "#", "."


def print_design(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write a kernel under design to a console.

    Args:
        verbose: Whether to print all evidence.
    """
    results = answer["results"]
    print_question(console, answer)
    hidden = {name for name, value in results.items() if isinstance(value, list)}
    hidden |= set() if verbose else set(IN_ONE_LINE)
    print_results(console, {name: results[name] for name in results if name not in hidden})
    console.print()
    print_line(console, _tile_text(results))
    busy = (f"{row['unit']} {share_text(row['share'])}" for row in results["units"])
    print_line(console, f"busy: {', '.join(busy)}")
    console.print()
    if verbose:
        _print_timeline(console, results)
    changes = [
        {
            "what if": row["change"],
            "time": format_value("time_s", row["time_s"]),
            "speedup": "" if row["speedup"] is None else f"{row['speedup']:.2f}x",
            "limiting unit": row["limiting_unit"] or f"impossible: {row['reason']}",
        }
        for row in results["what_if"]
        if verbose or not row["reason"]
    ]
    print_rows(console, changes)
    impossible = [row["change"] for row in results["what_if"] if row["reason"]]
    if impossible and not verbose:
        print_line(console, f"impossible (--verbose says why): {', '.join(impossible)}")
    print_closing(
        console,
        answer,
        reproduce=reproduce,
        method="pipeline model: warpgroups as programs on the units of an SM",
        covered=answer["evidence"]["assumptions"][0],
        verbose=verbose,
    )


def _print_timeline(console: Console, results: Mapping[str, Any]) -> None:
    """Write a line per unit: when it works in one iteration of the main loop."""
    cycles, timeline = results["iteration_cycles"], results["timeline"]
    rows = []
    for unit in dict.fromkeys(row["unit"] for row in timeline):
        own = [(row["start_cycles"], row["end_cycles"]) for row in timeline if row["unit"] == unit]
        middles = ((cell + 0.5) * cycles / CELLS for cell in range(CELLS))
        line = (any(start <= at < end for start, end in own) for at in middles)
        rows.append(
            {
                "one iteration": unit,
                f"{cycles:,.0f} cycles": "".join(WORKS if works else WAITS for works in line),
                "busy": share_text(sum(end - start for start, end in own) / cycles),
            }
        )
    print_rows(console, rows)
    console.print()


def _tile_text(results: Mapping[str, Any]) -> str:
    """Return the tile in a line."""
    sizes = " x ".join(str(results[name]) for name in ("tile_m", "tile_n", "tile_k"))
    pair = ", 2-CTA MMA" if results["ctas_per_mma"] > 1 else ""
    schedule = results.get("inner_dimension", "whole")
    pair += "" if schedule == "whole" else f", {schedule}"
    what = "tile share" if schedule == "stream-K" else "tile"
    return (
        f"{counted(results['tiles'], what)} of {sizes}, {counted(results['stages'], 'stage')},"
        f" {counted(results['warpgroups'], 'warpgroup')}{pair}:"
        f" {results['tile_cycles']:,.0f} cycles each"
    )
