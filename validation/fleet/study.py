"""Validation study: simulator against closed forms, predictions against published figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted, two_digits
from validation.fleet.agreement import (
    FINER,
    MIN_PROBABILITY,
    MOST_ERRORS,
    Agreement,
    Point,
    chance_of,
    compare,
    expected_largest,
    families,
)
from validation.fleet.agreement_nodes import (
    ageing_points,
    bursts_points,
    crews_points,
    erlang_points,
    first_failure_points,
    racks_points,
    warm_points,
)
from validation.fleet.agreement_patterns import (
    asynchronous_points,
    maintained_points,
    multilevel_points,
    renewal_points,
    verified_points,
)
from validation.fleet.anchor_rules import llama3_settings, rsc_mttf
from validation.fleet.anchors import STATUSES, published_anchors
from validation.fleet.check_values import CheckValue, Exactness, check_values, exactness

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
SEEDS: Final = 1000  # seed offset between studies
RULE: Final = (
    f"a point that deviates by more than {MOST_ERRORS:g} standard errors is simulated again with"
    f" {FINER} times as many replicas and other seeds, and fails if it deviates again; the"
    f" chi-square of all first results must have a probability of at least {MIN_PROBABILITY:.1%}"
)


def validate_fleet(figures: Path | None = None) -> dict[str, Any]:
    """Return the agreement of the simulator with closed forms and of predictions with publications.

    Args:
        figures: A table as `published_anchors` reads it; by default the shipped one.

    Returns:
        rule (of agreement), groups (as `families`), together (the same of all points),
        agreement (a row per point), check_values and exactness (of the closed forms), figures (a
        row per figure), counts (by status), settings (consistent with Llama-3's efficiency), mttf
        (RSC-1 by job size), failures (disagreements, as text).

    Raises:
        InvalidSpecError: The table of figures is invalid, or a figure has neither a rule nor a
            reason.
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
        f" {row.z:+.1f} standard errors apart, {row.second_z:+.1f} in the second simulation"
        for row in rows
        if not row.agrees and row.second_z is not None
    ]
    total, chance = chance_of(rows)
    if chance < MIN_PROBABILITY:
        found.append(
            f"all {counted(len(rows), 'point')}: sum of squares {total:.0f}, chi-square"
            f" probability {two_digits(chance)}"
        )
    found += [
        f"{value.name}: ours {value.ours:.8g}, known {value.known}"
        for value in values
        if not value.agrees
    ]
    found += [
        f"{error.name}: error {error.largest_error:.1e}, expected at most {error.limit:.0e}"
        for error in errors
        if not error.agrees
    ]
    return found
