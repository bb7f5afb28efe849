"""Medians over GPUs of tier measured on held-out shapes, with goals."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from perfatlas import hardware
from validation.scoring import ROUNDING, best_covered, goal_of, kernel_goals

if TYPE_CHECKING:
    from collections.abc import Sequence

# Distances, neighbours and their weights were tuned on held-out shapes of these GPUs.
TUNED: Final = ("a100_sxm", "h200_sxm", "b200_sxm", "l40s")
DIGITS: Final = 4
# held-out property -> its goal
GOALS: Final = {
    "shape": "unseen-shapes",
    "size": "unseen-shapes",
    "model": "unseen-shapes",
    "layout": "unseen-layouts",
}


@dataclass(frozen=True, kw_only=True)
class UnseenScore:
    """Errors of one cell on held-out rows; errors are fractions."""

    cell: str  # "<device>/<operator>/<family>/<format>"
    # Held-out property: shape, size or layout, or the whole model
    unseen: str
    rows: int  # Number of rows
    physics_mape: float  # Error of the shipped calibration, whose fit may include these rows
    measured_mape: float  # The same, corrected with the residuals of the other rows
    inside_90: float  # Share of rows inside the interval of tier measured
    half_width: float  # Median half-width of that interval, in e-folds
    near: float  # Share of rows close enough for a correction

    @property
    def device(self) -> str:
        """The device."""
        return self.cell.partition("/")[0]


def median_rows(scores: Sequence[UnseenScore]) -> list[dict[str, Any]]:
    """Return one row per operator, family, format and held-out property: medians over GPUs.

    `tuned_mape` is for the devices used in tuning, `others_mape` for the others; a goal is met
    where neither the median over all GPUs nor that over the others exceeds it.

    Args:
        scores: Scores of all cells.
    """
    groups: dict[tuple[str, str], list[UnseenScore]] = {}
    for score in scores:
        groups.setdefault((score.cell.partition("/")[2], score.unseen), []).append(score)
    return [_median_row(*key, found) for key, found in sorted(groups.items())]


def _median_row(key: str, unseen: str, found: Sequence[UnseenScore]) -> dict[str, Any]:
    operator, family, format_name = key.split("/")
    limit, kind = _goal(operator, family, format_name, unseen)
    scored = [score for score in found if kind in (None, _link(score.device))]
    row: dict[str, Any] = {
        "operator": operator,
        "family": family,
        "format": format_name,
        "unseen": unseen,
        "gpus": len(scored),
        "rows": sum(score.rows for score in scored),
        "goal_mape": limit,
    }
    for name in ("physics_mape", "measured_mape", "inside_90", "half_width"):
        row[name] = _median([getattr(score, name) for score in scored])
    for name, inside in (("tuned", True), ("others", False)):
        some = [s.measured_mape for s in scored if (s.device in TUNED) == inside]
        row |= {f"{name}_gpus": len(some), f"{name}_mape": _median(some)}
    reached = [row[name] for name in ("measured_mape", "others_mape") if row[name] is not None]
    row["goal_met"] = "-"
    if limit is not None and reached:
        row["goal_met"] = "yes" if max(reached) <= limit + ROUNDING else "no"
    return row


def _goal(
    operator: str, family: str, format_name: str, unseen: str
) -> tuple[float | None, str | None]:
    """Return the goal, None for none, and the kind of link it applies to."""
    goal = goal_of((operator, family, format_name))
    if goal is None or GOALS.get(unseen) not in goal["mape"]:
        return None, None
    factor = (
        1.0 if family == best_covered(operator, format_name) else kernel_goals()["others_factor"]
    )
    return round(goal["mape"][GOALS[unseen]] * factor, DIGITS), goal.get("scale_up")


def _link(device: str) -> str:
    return hardware.resolve_system(device).device.scale_up.kind


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), DIGITS) if values else None
