"""`python -m validation fleet`: the failure simulator against closed forms."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.commands.output import envelope, notice_if_slow, print_json
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

SLOW: Final = "simulating all points that have a closed form; takes about two minutes on one core"
GROUPS: Final = {
    "group": "simulated against exact",
    "points": "points",
    "largest": "largest deviation",
    "expected": "by chance",
    "half_width": "95% interval",
}
POINTS: Final = {"name": "point", "exact": "exact", "simulated": "simulated", "off": "errors off"}


def fleet(
    *,
    points: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare the job simulator with closed forms.

    Simulates 152 points; takes about two minutes.

    Args:
        points: List all compared points, instead of one row per kind.
        json: Print one JSON object.
        verbose: Print the criterion.
    """
    from perfatlas.report.text import open_terminal
    from validation.fleet import validate_fleet

    with notice_if_slow(SLOW):
        results = validate_fleet()
    if json:
        print_json(envelope("validation fleet", results=results, scenario={}))
    else:
        console = open_terminal(sys.stdout)
        _print_agreement(console, results, verbose=verbose)
        if points:
            _print_points(console, results)
    for failure in results["failures"]:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if results["failures"] else 0


def _print_agreement(console: Console, results: Mapping[str, Any], *, verbose: bool) -> None:
    from perfatlas.report.text import print_rows

    rows = [
        {
            "group": row["group"],
            "points": row["points"],
            "largest": f"{row['largest_z']:.1f} errors",
            "expected": f"{row['expected_z']:.1f}",
            "half_width": f"± {100 * row['half_width']:.2f}%",
        }
        for row in results["groups"]
    ]
    print_rows(console, rows, columns=GROUPS)
    every = results["together"]
    console.print(
        f"all {every['points']}: largest deviation {every['largest_z']:.1f} standard errors,"
        f" {every['expected_z']:.1f} expected by chance; sum of squares"
        f" {every['sum_of_squares']:.0f}, exceeded by chance in {every['chance']:.1%} of studies;"
        f" {every['second_looks']} redrawn"
    )
    if verbose:
        console.print(f"criterion: {results['rule']}", style="dim")


def _print_points(console: Console, results: Mapping[str, Any]) -> None:
    from perfatlas.report.text import print_rows

    for group in results["groups"]:
        rows = [
            {
                "name": row["name"],
                "exact": f"{row['exact']:.5g}",
                "simulated": f"{row['simulated']:.5g}",
                "off": f"{row['z']:+.1f}"
                + ("" if row["second_z"] is None else f", then {row['second_z']:+.1f}"),
            }
            for row in results["agreement"]
            if row["group"] == group["group"]
        ]
        print_rows(console, rows, columns=POINTS, title=group["group"])
