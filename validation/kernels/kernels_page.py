"""The validation page of kernels: all protocols and cells, generated from the scores."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import check_writable, write_atomic
from perfatlas.fitting import GROUPED_BY
from perfatlas.fitting.cells import exclusions
from validation.kernels.operators import validate_collectives, validate_kernels
from validation.scoring import (
    PROTOCOLS,
    Results,
    data_text,
    goal_table,
    interval_table,
    kernel_goals,
    table,
    tally_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from validation.scoring import CellScore

REGENERATE: Final = "python -m validation kernels --page validation/pages/kernels.md"
TITLES: Final = {
    "own": "Own calibration, all rows",
    "unseen-shapes": "Unseen shapes",
    "unseen-device": "Unseen device",
    "unseen-family": "Unseen family",
    "few-shot": "Few-shot",
}


def write_page(path: Path, progress: Callable[[CellScore], None] | None = None) -> dict[str, Any]:
    """Score every cell under every protocol, write the page, and return the failures.

    Args:
        path: The Markdown file.
        progress: Called after each cell.

    Returns:
        {"failures": texts} of the shipped calibrations.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        InvalidSpecError: The file cannot be written.
    """
    check_writable(path)
    results = {name: _scored(name, progress) for name in PROTOCOLS}
    write_atomic(path, page_text(results))
    return {"failures": results["own"]["failures"]}


def _scored(protocol: str, progress: Callable[[CellScore], None] | None) -> dict[str, Any]:
    """Return operators and collectives under one protocol, as one result."""
    parts = [
        validate(None, (), protocol, progress=progress)
        for validate in (validate_kernels, validate_collectives)
    ]
    joined = {
        name: [*parts[0][name], *parts[1][name]]
        for name in ("medians", "cells", "skipped", "failures")
    }
    return {**parts[0], **joined}


def page_text(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page.

    Args:
        results: Protocol -> result of `validate_kernels`, collectives joined; `own` at least.
    """
    medians: Results = {name: list(found["medians"]) for name, found in results.items()}
    cells: Results = {name: list(found["cells"]) for name, found in results.items()}
    return data_text("kernel_page.md").format(
        regenerate=REGENERATE,
        calibrations=results["own"]["calibrations"],
        cells=len(cells["own"]),
        rows=f"{sum(row['rows'] for row in cells['own']):,}",
        groups=table(["operator", "kept together"], GROUPED_BY.items()),
        tally=tally_table(medians),
        goals=goal_table(medians),
        hard=_hard(),
        intervals=interval_table(cells),
        skipped=_skipped(results),
        exclusions=_exclusions(),
    )


def _hard() -> str:
    """Return the reasons for missed goals, per goal."""
    known = [goal for goal in kernel_goals()["goal"] if goal.get("hard")]
    return "\n".join(f"- **{goal['name']}.** {goal['hard']}" for goal in known)


def _skipped(results: Mapping[str, Mapping[str, Any]]) -> str:
    found = Counter(
        (TITLES[name], row["reason"])
        for name, result in results.items()
        for row in result["skipped"]
    )
    rows = [[name, why, str(count)] for (name, why), count in sorted(found.items())]
    return table(["protocol", "why", "cells"], rows) if rows else "None."


def _exclusions() -> str:
    """Return the cells that are not calibrated."""
    return "\n".join(
        "- "
        + " ".join(rule[key] for key in ("device", "operator", "family", "format"))
        + f": {rule['reason']}"
        for rule in exclusions()
    )
