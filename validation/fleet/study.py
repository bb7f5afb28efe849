"""The failure simulator against closed forms."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted, two_digits
from validation.fleet.agreement import (
    FINER,
    MAX_STANDARD_ERRORS,
    MIN_PROBABILITY,
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    f"a point that deviates by more than {MAX_STANDARD_ERRORS:g} standard errors is simulated again"
    f" with {FINER} times as many replicas and other seeds, and fails if it deviates again; the"
    f" chi-square of all first results must have a probability of at least {MIN_PROBABILITY:.1%}"
)


def validate_fleet() -> dict[str, Any]:
    """Return the agreement of the simulator with closed forms.

    Returns:
        rule (of agreement), groups (as `families`), together (the same of all points),
        agreement (a row per point), failures (disagreements, as text).
    """
    rows = [
        row
        for number, study in enumerate(STUDIES)
        for row in compare(study(), seed=1 + number * SEEDS)
    ]
    return {
        "rule": RULE,
        "groups": families(rows),
        "together": _together(rows),
        "agreement": [asdict(row) | {"z": row.z} for row in rows],
        "failures": _failures(rows),
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


def _failures(rows: Sequence[Agreement]) -> list[str]:
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
    return found
