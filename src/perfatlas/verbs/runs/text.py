"""Runs and comparisons of runs as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text import (
    format_number,
    label_of,
    print_facts,
    print_labelled,
    print_line,
    print_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

MOST_ROWS: Final = 12
LONGEST: Final = 40


def print_run(
    console: Console, described: Mapping[str, Any], results: Mapping[str, Any], *, verbose: bool
) -> None:
    """Write the description of a run, and its summary.

    Args:
        results: The results of `runs show`.
        verbose: Whether to show versions, hashes, all best rows and reasons.
    """
    from perfatlas.report.text import print_study_summary

    facts = {
        "run": results["run"],
        "state": results["state"],
        "created": results["created"],
        "folder": results["folder"],
        "perfatlas": described["versions"]["perfatlas"],
        "code": described["data_hashes"]["code"][:19],
    }
    if verbose:
        facts |= {**described["versions"], **described["data_hashes"], **described["files"]}
    print_facts(console, facts)
    print_line(console, "study", style="bold")
    print_labelled(console, list(_study_facts(described["study"]).items()))
    if results["summary"] is None:
        blocks = counted(described["blocks"], "block")
        print_line(console, f"{results['blocks_kept']:,} of {blocks} finished")
        return
    print_study_summary(console, results["summary"], described["command"], verbose=verbose)


def _study_facts(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of a study by their dotted names; a range or list is one text."""
    facts: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "from" not in value:
            facts |= _study_facts(value, f"{prefix}{key}.")
        elif isinstance(value, dict):
            facts[prefix + key] = ", ".join(f"{name} {one}" for name, one in value.items())
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, item in enumerate(value, 1):
                facts |= _study_facts(item, f"{prefix}{key}.{number}.")
        else:
            items = value if isinstance(value, list) else [value]
            facts[prefix + key] = ", ".join(str(one) for one in items)
    return facts


def print_comparison(console: Console, results: Mapping[str, Any], *, verbose: bool) -> None:
    """Write how two runs differ.

    Args:
        results: From `compared_runs`.
        verbose: Whether to show results that are equal at all points, too.
    """
    first, second = results["runs"]
    print_line(console, f"first {first}, second {second}", style="bold")
    for title, name in (("study", "asked"), ("versions and data", "versions")):
        rows = [{key: str(value)[:LONGEST] for key, value in row.items()} for row in results[name]]
        print_rows(console, rows[:MOST_ROWS], title=title)
        if not rows:
            print_line(console, f"{title}: equal")
    shared = counted(results["shared_points"], "shared point")
    print_line(console, f"{shared}, by {', '.join(results['compared_by'])}")
    mixed = results["limits_beside_predictions"]
    if mixed:
        print_line(
            console,
            f"at {counted(mixed, 'point')} one run has lower limits on time (tier bound) and the"
            " other predictions: column limits",
        )
    changed = [row for row in results["metrics"] if row["changed"] or verbose]
    equal = len(results["metrics"]) - len(changed)
    rows = [
        {
            "result": label_of(row["metric"], short=True),
            "changed": f"{row['changed']:,}",
            **{
                key: "" if row[f"ratio_{key}"] is None else format_number(row[f"ratio_{key}"])
                for key in ("p50", "p5", "p95")
            },
            **({"limits": f"{row['limits_beside_predictions']:,}"} if mixed else {}),
        }
        for row in (changed if verbose else changed[:MOST_ROWS])
    ]
    print_rows(console, rows, title="second / first: median, 5% and 95% quantile over points")
    if equal:
        print_line(console, f"{counted(equal, 'result')} equal at all shared points")
    if hidden := len(changed) - len(rows):
        print_line(console, f"--verbose shows {counted(hidden, 'further result')}", style="dim")
