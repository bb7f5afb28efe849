"""The simulator beside its closed forms, and published figures beside what perfatlas says."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.validation.agreement import (
    FINER,
    MOST_ERRORS,
    UNLIKELY,
    Agreement,
    Point,
    chance_of,
    compare,
    expected_largest,
    families,
)
from perfatlas.fleet.validation.agreement_nodes import (
    ageing_points,
    bursts_points,
    crews_points,
    erlang_points,
    first_failure_points,
    racks_points,
    warm_points,
)
from perfatlas.fleet.validation.agreement_patterns import (
    asynchronous_points,
    maintained_points,
    multilevel_points,
    renewal_points,
    verified_points,
)
from perfatlas.fleet.validation.anchor_rules import llama3_settings, rsc_mttf
from perfatlas.fleet.validation.anchors import STATUSES, published_anchors
from perfatlas.fleet.validation.check_values import CheckValue, Exactness, check_values, exactness
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STUDIES: Final[tuple[Callable[[], list[Point]], ...]] = (
    renewal_points,
    asynchronous_points,
    multilevel_points,
    verified_points,
    maintained_points,
    erlang_points,
    crews_points,
    warm_points,
    racks_points,
    bursts_points,
    ageing_points,
    first_failure_points,
)
SEEDS: Final = 1000  # from one study to the next
RULE: Final = (
    f"a point more than {MOST_ERRORS:g} standard errors off is drawn once more with {FINER} times"
    " as many replicas of other seeds, and disagrees if it is off again; all first looks together"
    f" must not be further off than chance makes them in {UNLIKELY:.1%} of studies"
)


def validate_fleet(figures: Path | None = None) -> dict[str, Any]:
    """Return how the simulator agrees with closed forms, and what became of published figures.

    Args:
        figures: A table as `published_anchors` reads it; by default the shipped one.

    Returns:
        rule (of what disagrees), groups (as `families`), together (the same of all points),
        agreement (a row per point), check_values and exactness (of the closed forms), figures (a
        row per figure), counts (by status), settings (what explains Llama-3's efficiency), mttf
        (RSC-1 by job size), failures (what disagrees, in words).

    Raises:
        InvalidSpecError: The table of figures is wrong, or one is without a rule or a reason.
    """
    anchors = published_anchors(figures)
    values, errors = check_values(), exactness()
    rows = [
        row
        for number, study in enumerate(STUDIES)
        for row in compare(study(), seed=1 + number * SEEDS)
    ]
    statuses = [anchor.status for anchor in anchors]
    return {
        "rule": RULE,
        "groups": families(rows),
        "together": _together(rows),
        "agreement": [asdict(row) | {"z": row.z} for row in rows],
        "check_values": [asdict(value) | {"agrees": value.agrees} for value in values],
        "exactness": [asdict(error) for error in errors],
        "counts": {name: statuses.count(name) for name in STATUSES},
        "figures": [asdict(anchor) for anchor in anchors],
        "settings": [asdict(setting) for setting in llama3_settings()],
        "mttf": rsc_mttf(),
        "failures": _failures(rows, values, errors),
    }


def _together(rows: Sequence[Agreement]) -> dict[str, Any]:
    total, chance = chance_of(rows)
    return {
        "points": len(rows),
        "largest_z": max((abs(row.z) for row in rows), default=0.0),
        "expected_z": expected_largest(len(rows)),
        "second_looks": sum(row.second_z is not None for row in rows),
        "sum_of_squares": total,
        "chance": chance,
    }


def _failures(
    rows: Sequence[Agreement], values: Sequence[CheckValue], errors: Sequence[Exactness]
) -> list[str]:
    found = [
        f"{row.group}, {row.name}: simulated {row.simulated:.6g}, exact {row.exact:.6g},"
        f" {row.z:+.1f} standard errors apart, {row.second_z:+.1f} at the second look"
        for row in rows
        if not row.agrees and row.second_z is not None
    ]
    total, chance = chance_of(rows)
    if chance < UNLIKELY:
        found.append(
            f"{counted(len(rows), 'point')} together: sum of squares {total:.0f}, as large by"
            f" chance in {chance:.2g} of studies"
        )
    found += [
        f"{value.name}: ours {value.ours:.8g}, known {value.known}"
        for value in values
        if not value.agrees
    ]
    found += [
        f"{error.name}: off by {error.largest_error:.1e}, expected {error.limit:.0e} at most"
        for error in errors
        if not error.agrees
    ]
    return found
