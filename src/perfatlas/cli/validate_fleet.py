"""`perfatlas validate fleet`: the simulator against closed forms and published figures."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json
from perfatlas.cli.vocabulary import SWITCH, File
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

GROUPS: Final = {
    "group": "simulated against exact",
    "points": "points",
    "largest": "furthest off",
    "half_width": "95 % interval",
}

STATUSES: Final = {
    "reproduced": "reproduced",
    "consistent": "inside the range of what is not published",
    "arithmetic": "that are arithmetic of their own table, and tell nothing",
    "missed": "missed",
}


def fleet(
    *,
    figures: File | None = None,
    declined: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare the job simulator with closed forms, and published figures with what we say.

    Args:
        figures: CSV of published figures in place of those that come with perfatlas.
        declined: List every figure that is declined with its reason, not a count by reason.
        json: Print one JSON object.
    """
    from perfatlas.fleet.validation import validate_fleet
    from perfatlas.report import open_terminal

    results = validate_fleet(figures)
    if json:
        asked = {"figures": None if figures is None else str(figures)}
        print_json(envelope("validate fleet", results=results, scenario=asked))
    else:
        _print(open_terminal(sys.stdout), results, every=declined)
    for failure in results["failures"]:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if results["failures"] else 0


def _print(console: Console, results: Mapping[str, Any], *, every: bool) -> None:
    from perfatlas.report import print_facts, print_rows

    rows = [
        {
            "group": row["group"],
            "points": row["points"],
            "largest": f"{row['largest_z']:.1f} standard errors",
            "half_width": f"± {100 * row['half_width']:.2f} %",
        }
        for row in results["groups"]
    ]
    print_rows(console, rows, columns=GROUPS)
    counts = results["counts"]
    console.print()
    for status, label in STATUSES.items():
        console.print(f"published figures {label}: {counts[status]}", style="bold")
        for figure in results["figures"]:
            if figure["status"] == status:
                name = f"{figure['metric']} ({figure['source']})"
                bound = figure["published"][0] in "<>" or figure["off"] is None
                off = "" if bound else f", {figure['off']:+.1%}"
                end = "" if figure["ours_max"] is None else f" to {figure['ours_max']:.4g}"
                ours = f"{figure['published']}, ours {figure['ours']:.4g}{end}{off}"
                console.print(f"  {name}")
                print_facts(console, {"  published": ours, "  by": figure["why"]})
    console.print(f"published figures declined: {counts['declined']}", style="bold")
    gone = [figure for figure in results["figures"] if figure["status"] == "declined"]
    if every:
        told = [{"figure": f"{f['metric']} = {f['published']}", "why": f["why"]} for f in gone]
    else:
        reasons = Counter(figure["why"] for figure in gone).most_common()
        told = [{"figures": count, "why": why} for why, count in reasons]
    print_rows(console, told)
    _print_llama3(console, results)


def _print_llama3(console: Console, results: Mapping[str, Any]) -> None:
    """Say which settings explain more than 90 % effective time, as a set."""
    from perfatlas.report import print_rows

    good = [row for row in results["settings"] if row["longest_s"] is not None]
    console.print()
    rows = [
        {
            "write": f"{row['write_s']:g} s",
            "restart": f"{row['restart_s'] / 60:g} min",
            "interval": f"{row['shortest_s'] / 60:.1f} - {row['longest_s'] / 60:.1f} min",
            "best": f"{100 * row['best']:.1f} %",
        }
        for row in good
    ]
    titles = {"write": "write", "restart": "restart", "interval": "interval", "best": "at best"}
    title = f"what explains over 90 % effective time of Llama-3: {len(good)} of"
    print_rows(console, rows, columns=titles, title=f"{title} {len(results['settings'])} settings")
