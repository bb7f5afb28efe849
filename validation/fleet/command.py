"""`python -m validation fleet`: the simulator against closed forms and published figures."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

from perfatlas.commands.flags import SWITCH, File
from perfatlas.commands.output import envelope, notice_if_slow, print_json
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
STATUSES: Final = {
    "reproduced": "reproduced",
    "consistent": "consistent: within the range of unpublished inputs, or a bound that holds",
    "missed": "missed",
    "arithmetic": "that only restate their own table",
}


def fleet(
    *,
    figures: File | None = None,
    points: Annotated[bool, SWITCH] = False,
    declined: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
    verbose: Annotated[bool, SWITCH] = False,
) -> int:
    """Compare the job simulator with closed forms, and predictions with published figures.

    Simulates 152 points; takes about two minutes.

    Args:
        figures: CSV of published figures, instead of the shipped ones.
        points: List all compared points and check values, instead of one row per kind.
        declined: List all declined figures with reasons, instead of counts by reason.
        json: Print one JSON object.
        verbose: Print the criterion, the exactness of closed forms, and each published figure.
    """
    from perfatlas.report.text import open_terminal
    from validation.fleet import validate_fleet

    with notice_if_slow(SLOW):
        results = validate_fleet(figures)
    if json:
        set_fields = {"figures": None if figures is None else str(figures)}
        print_json(envelope("validation fleet", results=results, scenario=set_fields))
    else:
        console = open_terminal(sys.stdout)
        _print_agreement(console, results, verbose=verbose)
        if verbose:
            _print_exact(console, results)
        if points:
            _print_points(console, results)
        if verbose or declined:
            _print_figures(console, results)
            _print_declined(console, results["figures"], every=declined)
        if verbose:
            _print_mttf(console, results["mttf"])
            _print_llama3(console, results["settings"])
        else:
            _print_counts(console, results)
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
    console.print()


def _print_exact(console: Console, results: Mapping[str, Any]) -> None:
    from perfatlas.report.text import print_rows

    rows = [
        {
            "closed form against 50 digits": row["name"],
            "points": row["cells"],
            "largest relative error": f"{row['largest_error']:.1e}",
            "allowed": f"{row['limit']:.0e}",
        }
        for row in results["exactness"]
    ]
    print_rows(console, rows, columns={name: name for row in rows for name in row})
    values = results["check_values"]
    good = sum(value["agrees"] for value in values)
    console.print(f"check values reproduced to the last digit: {good} of {len(values)}")
    console.print()


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
    rows = [
        {"name": row["name"], "known": row["known"], "ours": f"{row['ours']:.7g}"}
        for row in results["check_values"]
    ]
    titles = {"name": "check value", "known": "known", "ours": "ours"}
    print_rows(console, rows, columns=titles, title="check values")


def _print_figures(console: Console, results: Mapping[str, Any]) -> None:
    from perfatlas.report.text import print_facts

    for status, label in STATUSES.items():
        console.print(
            f"published figures {label}: {results['counts'][status]}", style="bold", soft_wrap=False
        )
        for figure in results["figures"]:
            if figure["status"] == status:
                off = "" if figure["off"] is None else f", {figure['off']:+.1%}"
                end = "" if figure["ours_max"] is None else f" to {figure['ours_max']:.4g}"
                ours = f"{figure['published']}, predicted {figure['ours']:.4g}{end}{off}"
                console.print(f"  {figure['source']}: {figure['metric']}")
                print_facts(console, {"  published": ours, "  by": figure["why"]})
        console.print()


def _print_counts(console: Console, results: Mapping[str, Any]) -> None:
    """Print how many published figures have each status, and what --verbose adds."""
    declined = sum(figure["status"] == "declined" for figure in results["figures"])
    for status, label in STATUSES.items():
        console.print(f"published figures {label}: {results['counts'][status]}")
    console.print(f"published figures declined: {declined}")
    console.print(
        "--verbose shows the criterion, closed forms, and each published figure", style="dim"
    )


def _print_declined(console: Console, figures: Sequence[Mapping[str, Any]], *, every: bool) -> None:
    from perfatlas.report.text import print_rows

    gone = [figure for figure in figures if figure["status"] == "declined"]
    console.print(f"published figures declined: {len(gone)}", style="bold")
    if every:
        rows = [
            {
                "figure": f"{f['source']}: {f['metric']} = {f['published']}",
                "why": f["why"],
            }
            for f in gone
        ]
    else:
        reasons = Counter(figure["why"] for figure in gone).most_common()
        rows = [{"figures": count, "why": why} for why, count in reasons]
    print_rows(console, rows)
    console.print()


def _print_mttf(console: Console, mttf: Sequence[Mapping[str, float]]) -> None:
    """Print the MTTF by job size for each kind of rate; neither explains all four."""
    from perfatlas.report.text import print_rows

    rows = [
        {
            "gpus": f"{row['gpus']:,.0f}",
            "published": f"{_time(row['published_s'])}, {row['kind']}",
            "hardware": _apart(row["by_hardware_rate_s"], row["published_s"]),
            "interruptions": _apart(row["by_interruption_rate_s"], row["published_s"]),
        }
        for row in mttf
    ]
    titles = {
        "gpus": "GPUs",
        "published": "published",
        "hardware": "hardware failures",
        "interruptions": "interrupted jobs",
    }
    title = "RSC-1's mean time to failure by job size, from the rates of"
    print_rows(console, rows, columns=titles, title=title)


def _apart(ours_s: float, published_s: float) -> str:
    return f"{_time(ours_s)}, {ours_s / published_s - 1:+.0%}"


def _time(seconds: float) -> str:
    return f"{seconds / 86400:.1f} d" if seconds >= 2 * 86400 else f"{seconds / 3600:.3g} h"


def _print_llama3(console: Console, settings: Sequence[Mapping[str, Any]]) -> None:
    """Print which settings explain more than 90% effective time."""
    from perfatlas.report.text import print_rows

    good = [row for row in settings if row["longest_s"] is not None]
    restarts_s = sorted({row["restart_s"] for row in good})
    found = {(row["write_s"], row["restart_s"]): _range(row) for row in good}
    rows = [
        {"write": f"{write_s:g} s"}
        | {f"{r:g}": found.get((write_s, r), "never") for r in restarts_s}
        for write_s in sorted({row["write_s"] for row in good})
    ]
    titles = {"write": "write, restart"} | {f"{r:g}": f"{r / 60:g} min" for r in restarts_s}
    print_rows(
        console,
        rows,
        columns=titles,
        title="settings that give over 90% effective time of Llama-3: minutes between checkpoints",
    )
    none = {
        name: [f"{s / scale:g}" for s in sorted({row[key] for row in settings}) if s not in reached]
        for name, key, scale, reached in (
            ("s writes", "write_s", 1.0, {row["write_s"] for row in good}),
            ("min restarts", "restart_s", 60.0, set(restarts_s)),
        )
    }
    left = "; ".join(f"{', '.join(values)} {name}" for name, values in none.items() if values)
    console.print(f"{len(good)} of {len(settings)} pairs reach it; none with: {left}")


def _range(row: Mapping[str, Any]) -> str:
    return f"{row['shortest_s'] / 60:.1f} - {row['longest_s'] / 60:.1f}"
