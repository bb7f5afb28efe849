"""Medians over GPUs of cell scores, with goals and the targets of earlier work."""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from perfatlas import hardware
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.measurements.calibrations import load_calibrations
from validation.scoring.data_files import read_data
from validation.scoring.intervals import WIDTHS
from validation.scoring.score import DIGITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from validation.scoring.score import CellScore

Key = tuple[str, str, str]  # operator, family, format
ROUNDING: Final = 5e-4  # figures are published with one decimal of a percent
MEANS: Final = (
    "mape",
    "median_error",
    "p90_error",
    "bias",
    "inside_90",
    *WIDTHS,
    "half_width",
    "roofline_mape",
)


def median_row(key: Key, found: Mapping[str, CellScore], protocol: str) -> dict[str, Any]:
    """Return one row: medians over GPUs, the goal, and the target of earlier work.

    Args:
        key: Operator, family and format.
        found: Device -> score, at least one.
        protocol: Validation protocol.
    """
    operator, family, format_name = key
    scores = list(found.values())
    medians = {name: _median([getattr(score, name) for score in scores]) for name in MEANS}
    return {
        "operator": operator,
        "family": family,
        "format": format_name,
        "gpus": len(found),
        "rows": sum(score.rows for score in scores),
        **medians,
        **_against_goal(key, found, protocol),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), DIGITS) if known else None


def kernel_goals() -> Mapping[str, Any]:
    """Return the goals of every operator and protocol, as data."""
    return read_data("kernel_goals.toml")


@cache
def best_covered(operator: str, format_name: str) -> str:
    """Return the family with the most measured rows of an operator and format, "" for none."""
    rows: dict[str, int] = {}
    for device in MEASURED_DEVICES:
        for load_calibration in load_calibrations(device).values():
            if (load_calibration.operator, load_calibration.format) == (operator, format_name):
                rows[load_calibration.family] = (
                    rows.get(load_calibration.family, 0) + load_calibration.rows
                )
    return max(rows, key=lambda name: rows[name]) if rows else ""


def goal_of(key: Key) -> dict[str, Any] | None:
    """Return the goal of an operator and format, None for none.

    Args:
        key: Operator, family and format.
    """
    operator, _, format_name = key
    for goal in kernel_goals()["goal"]:
        formats = goal.get("formats")
        if operator in goal["operators"] and (formats is None or format_name in formats):
            return dict(goal)
    return None


def _against_goal(key: Key, found: Mapping[str, CellScore], protocol: str) -> dict[str, Any]:
    """Return the goal, its devices and median, and whether it is met."""
    row: dict[str, Any] = {"goal_mape": None, "goal_gpus": 0, "goal_median_mape": None}
    row["goal_met"] = "-"
    goal = goal_of(key)
    if goal is None or protocol not in goal["mape"]:
        return row
    kind = goal.get("scale_up")
    compared = [score.mape for device, score in found.items() if kind in (None, _link(device))]
    if not compared:
        return row
    factor = 1.0 if key[1] == best_covered(key[0], key[2]) else kernel_goals()["others_factor"]
    limit, reached = round(goal["mape"][protocol] * factor, DIGITS), median(compared)
    return {
        "goal_mape": limit,
        "goal_gpus": len(compared),
        "goal_median_mape": round(reached, DIGITS),
        "goal_met": "yes" if reached <= limit + ROUNDING else "no",
    }


def _link(device: str) -> str:
    return hardware.resolve_system(device).device.scale_up.kind
