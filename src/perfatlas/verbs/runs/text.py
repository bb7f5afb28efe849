"""A run as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import counted
from perfatlas.report.text import print_facts, print_labelled, print_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


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
