"""Spread of operator times between laboratories: every source counts once.

Shape legend: U compared times of a draw.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from validation.laboratories.published_kernels import published_draws
from validation.laboratories.spread import NORMAL
from validation.laboratories.table_draws import CLASSES, collector_draws, release_draws
from validation.scoring import interval_score, read_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from validation.laboratories.table_draws import Draw

Row = dict[str, Any]
ALL: Final = "all"
COMMAND: Final = "python -m validation published"
DIGITS: Final = 4


@cache
def operator_draws() -> tuple[Draw, ...]:
    """Return the draws of all sources.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    return (*collector_draws(), *release_draws(), *published_draws())


def effect_variance(draw: Draw) -> float:
    """Return the mean square of ln(measured / expected) beyond the errors of the expected times."""
    return max(float((np.square(draw.logs) - np.square(draw.spreads)).mean()), 0.0)


def class_deviation(draws: Sequence[Draw], operators: str) -> float:
    """Return the standard deviation of the effect between laboratories of a class of operators.

    Every source of the class counts once. Those of all other classes together count as
    `prior_draws` more, so that a class with few sources has mostly their deviation.

    Args:
        draws: Draws of all classes.
        operators: The class, or `all`.

    Source: reproducibility variance of ISO 5725-2 about no known bias, shrunk to the mean of all
        classes with a fixed weight; errors of expected times are independent: variances add.
    """
    own = [effect_variance(draw) for draw in draws if operators in (ALL, draw.operators)]
    others = [effect_variance(draw) for draw in draws if operators not in (ALL, draw.operators)]
    if not others:
        return math.sqrt(np.mean(own))
    weight = read_data(CLASSES)["prior_draws"]["value"]
    return math.sqrt((sum(own) + weight * np.mean(others)) / (len(own) + weight))


def scored_sources() -> list[Row]:
    """Return how well both intervals hold for each source, with the effect of all others.

    Returns:
        By source: class, kind, compared times, median ratio and error, share inside the interval
        as tabulated and on any machine, its median width, and interval scores (Winkler) of it and
        of an interval of constant width, that of all others without the errors of predictions.
    """
    draws = operator_draws()
    rows = []
    for draw in draws:
        others = [other for other in draws if other is not draw]
        width = NORMAL * class_deviation(others, draw.operators)
        same = [other for other in others if other.operators == draw.operators] or others
        rows.append(_scored(draw, width, _constant(same)))
    return rows


def _scored(draw: Draw, width: float, constant: tuple[float, float]) -> Row:
    log_U, half_U2 = draw.logs, draw.half_widths
    machine = (-np.hypot(half_U2[:, 0], width), np.hypot(half_U2[:, 1], width))
    inside = (-half_U2[:, 0] <= log_U) & (log_U <= half_U2[:, 1])
    return {
        "source": draw.source,
        "operators": draw.operators,
        "kind": draw.kind,
        "times": log_U.size,
        "median_ratio": float(np.exp(np.median(log_U))),
        "median_error": float(np.median(np.abs(np.expm1(log_U)))),
        "tabulated_inside_90": float(inside.mean()) if draw.kind == "published" else None,
        "inside_90": float(((machine[0] <= log_U) & (log_U <= machine[1])).mean()),
        "median_width": float(np.exp(np.median(machine[1] - machine[0]))),
        "interval_score": interval_score(log_U, *machine),
        "constant_width_score": interval_score(log_U, *constant),
    }


def _constant(draws: Sequence[Draw]) -> tuple[float, float]:
    """Return the 5% and 95% quantiles of draws that count once each."""
    from validation.laboratories.spread import tails_of

    tails = tails_of([draw.logs for draw in draws])
    return tails.q05, tails.q95


def operator_rows() -> dict[str, Row]:
    """Return the content of the shipped file, by class of operators."""
    draws, classes = operator_draws(), read_data(CLASSES)["classes"]
    found = {}
    for operators in (*classes, ALL):
        own = [draw for draw in draws if operators in (ALL, draw.operators)]
        deviation = class_deviation(draws, operators)
        found[operators] = {
            "operators": list(classes.get(operators, ())),
            "deviation": round(deviation, DIGITS),
            "half_width": round(NORMAL * deviation, DIGITS),
            "sources": len(own),
            "rows": int(sum(draw.logs.size for draw in own)),
            "command": COMMAND,
        }
    return found
