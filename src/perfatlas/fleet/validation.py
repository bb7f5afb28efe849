"""The simulator beside its closed forms, and published figures beside what perfatlas says."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from perfatlas.fleet.agreement import (
    Agreement,
    ageing_study,
    pattern_study,
    renewal_study,
    spares_study,
)
from perfatlas.fleet.anchor_rules import llama3_settings, rsc_mttf
from perfatlas.fleet.anchors import STATUSES, published_anchors

if TYPE_CHECKING:
    from pathlib import Path

MOST_ERRORS: Final = 3.0  # standard errors


def validate_fleet(figures: Path | None = None) -> dict[str, Any]:
    """Return how the simulator agrees with closed forms, and what became of published figures.

    Args:
        figures: A table as `published_anchors` reads it; by default the shipped one.

    Returns:
        groups (group, points, largest_z, widest half_width), agreement (a row per point), figures
        (a row per figure), counts (by status), settings (what explains Llama-3's efficiency),
        mttf (RSC-1 by job size), failures (points off by more than three standard errors).

    Raises:
        InvalidSpecError: The table of figures is wrong, or one is without a rule or a reason.
    """
    anchors = published_anchors(figures)
    points = [
        *renewal_study(),
        *pattern_study(),
        *spares_study(),
        *ageing_study(),
    ]
    statuses = [anchor.status for anchor in anchors]
    return {
        "groups": _groups(points),
        "agreement": [asdict(point) | {"z": point.z} for point in points],
        "counts": {name: statuses.count(name) for name in STATUSES},
        "figures": [asdict(anchor) for anchor in anchors],
        "settings": [asdict(setting) for setting in llama3_settings()],
        "mttf": rsc_mttf(),
        "failures": [
            f"{point.group}, {point.name}: simulated {point.simulated:.6g}, exact"
            f" {point.exact:.6g}, {point.z:+.1f} standard errors apart"
            for point in points
            if abs(point.z) > MOST_ERRORS
        ],
    }


def _groups(points: list[Agreement]) -> list[dict[str, Any]]:
    groups: dict[str, list[Agreement]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(point)
    return [
        {
            "group": name,
            "points": len(rows),
            "largest_z": max(abs(row.z) for row in rows),
            "half_width": max(row.half_width for row in rows),
        }
        for name, rows in groups.items()
    ]
