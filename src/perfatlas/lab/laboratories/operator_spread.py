"""Spread of operator times between laboratories: every source counts once.

Shape legend: U compared times of a draw, G scales.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.lab.laboratories.kernel_rules import kernel_rules
from perfatlas.lab.laboratories.published_kernels import published_draws
from perfatlas.lab.laboratories.spread import LEVEL, interval_score
from perfatlas.lab.laboratories.table_draws import collector_draws, release_draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.lab.laboratories.table_draws import Draw
    from perfatlas.operators import FloatArray

Row = dict[str, Any]
ALL: Final = "all"
COMMAND: Final = "perfatlas validate published"
DIGITS: Final = 4
SMALLEST: Final = 1e-3  # of a scale; tables that agree to the last digit have none
LARGEST: Final = 3.0
STEPS: Final = 400
MOST: Final = 1000  # quantiles that stand for the times of a draw


@cache
def operator_draws() -> tuple[Draw, ...]:
    """Return the draws of all sources.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    return (*collector_draws(), *release_draws(), *published_draws())


def effect_scale(draws: Sequence[Draw], freedom: float) -> float:
    """Return the scale of a Student t distribution of the effect between laboratories.

    It maximizes the likelihood of all draws, each with a weight of one, on a grid of scales. The
    error of a predicted time adds in quadrature.

    Args:
        draws: The draws.
        freedom: Degrees of freedom.

    Source: likelihood of the location-scale t distribution with a known centre. Own formula for
        the error of the expected time: variances add.
    """
    found_G = np.sum([_likelihoods(one, freedom) for one in draws], axis=0)
    return float(_scales()[int(np.argmax(found_G))])


@cache
def _scales() -> FloatArray:
    return np.geomspace(SMALLEST, LARGEST, STEPS)


def _likelihoods(draw: Draw, freedom: float) -> FloatArray:
    """Return the mean log likelihood of a draw at every scale (G,)."""
    logs_U, spreads_U = draw.logs, draw.spreads
    if logs_U.size > MOST:  # two tables: no error of a prediction
        logs_U = np.quantile(logs_U, (np.arange(MOST) + 0.5) / MOST)
        spreads_U = np.zeros(MOST)
    scales_GU = np.hypot(_scales()[:, None], spreads_U)
    tails_GU = np.log1p(np.square(logs_U / scales_GU) / freedom)
    found_G: FloatArray = np.mean(-np.log(scales_GU) - 0.5 * (freedom + 1.0) * tails_GU, axis=1)
    return found_G


def class_scale(draws: Sequence[Draw], operators: str) -> float:
    """Return the scale of a class, or that of all classes where it has few sources.

    Args:
        draws: Draws of all classes.
        operators: The class, or `all`.
    """
    rules = kernel_rules()
    own = [one for one in draws if operators in (ALL, one.operators)]
    few = len(own) < rules["fewest_draws"]["value"]
    return effect_scale(draws if few else own, rules["freedom"]["value"])


def half_width(scale: float) -> float:
    """Return the half-width of the 90% interval of an effect.

    Args:
        scale: Scale of the t distribution.
    """
    from scipy.stats import t

    return scale * float(t.ppf(0.5 + 0.5 * LEVEL, kernel_rules()["freedom"]["value"]))


def scored_sources() -> list[Row]:
    """Return how well both intervals hold for each source, with the effect of all others.

    Returns:
        By source: class, kind, compared times, median ratio and error, share inside the interval
        as tabulated and on any machine, its median width, and interval scores (Winkler) of it and
        of an interval of constant width, that of all others without the errors of predictions.
    """
    draws = operator_draws()
    rows = []
    for one in draws:
        others = [other for other in draws if other is not one]
        width = half_width(class_scale(others, one.operators))
        same = [other for other in others if other.operators == one.operators] or others
        rows.append(_scored(one, width, _constant(same)))
    return rows


def _scored(draw: Draw, width: float, constant: tuple[float, float]) -> Row:
    log_U, half_U2 = draw.logs, draw.half_widths
    machine = (-np.hypot(half_U2[:, 0], width), np.hypot(half_U2[:, 1], width))
    fixed = (np.full(log_U.size, constant[0]), np.full(log_U.size, constant[1]))
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
        "interval_score": interval_score(log_U, machine),
        "constant_width_score": interval_score(log_U, fixed),
    }


def _constant(draws: Sequence[Draw]) -> tuple[float, float]:
    """Return the 5% and 95% quantiles of draws that count once each."""
    from perfatlas.lab.laboratories.spread import tails_of

    tails = tails_of([one.logs for one in draws])
    return tails.q05, tails.q95


def operator_rows() -> dict[str, Row]:
    """Return the content of the shipped file, by class of operators."""
    draws, rules = operator_draws(), kernel_rules()
    found = {}
    for operators in (*rules["classes"], ALL):
        own = [one for one in draws if operators in (ALL, one.operators)]
        scale = round(class_scale(draws, operators), DIGITS)
        found[operators] = {
            "operators": list(rules["classes"].get(operators, ())),
            "scale": scale,
            "freedom": float(rules["freedom"]["value"]),
            "half_width": round(half_width(scale), DIGITS),
            "sources": len(own),
            "rows": int(sum(one.logs.size for one in own)),
            "command": COMMAND,
        }
    return found
