"""Step-time error quantiles per engine from serving runs, with held-out models.

Shape legend: N runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from validation.runs.predictions import answered, below_bound
from validation.scoring import SCORES, scores_beside_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

Row = dict[str, Any]
TAILS: Final = (0.05, 0.95)
DIGITS: Final = 4


def residuals(rows: Sequence[Row]) -> FloatArray:
    """Return ln(measured / predicted) of predicted runs (N,).

    Args:
        rows: From `predict_runs`, without errors.
    """
    measured = np.array([row["tpot_measured_s"] for row in rows], np.float64)
    found: FloatArray = np.log(measured / np.array([row["tpot_s"] for row in rows], np.float64))
    return found


def possible(rows: Sequence[Row]) -> list[Row]:
    """Return the predicted runs that are not faster than the bound for their stated load.

    Args:
        rows: From `predict_runs`.
    """
    return [row for row in answered(rows) if not below_bound(row)]


def error_tails(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the 5% and 95% quantiles of the residuals of plausible runs.

    Args:
        rows: From `predict_runs`, at least one plausible.

    Example:
        >>> from validation.runs.step_errors import error_tails
        >>> one = {"tpot_s": 1.0, "tpot_measured_s": 1.0}
        >>> one |= {"request_latency_bound_s": 5.0, "request_latency_measured_s": 9.0}
        >>> error_tails([one, one | {"tpot_measured_s": 0.1, "request_latency_measured_s": 1.0}])
        (0.0, 0.0)
    """
    low, high = np.quantile(residuals(possible(rows)), TAILS)
    return round(float(low), DIGITS), round(float(high), DIGITS)


def unseen_networks(rows: Sequence[Row]) -> list[Row]:
    """Return, per engine and network, the number of runs inside the errors of other networks.

    For every network the tails come from the engine's other networks. They are not those of the
    printed interval, which is composed of the errors of all sources.

    Args:
        rows: From `predict_runs`.
    """
    found: list[Row] = []
    for engine in sorted({row["backend"] for row in rows}):
        own = [r for r in rows if r["backend"] == engine and r["tpot_s_high"] is not None]
        own = [row for row in own if np.isfinite(row["tpot_s_high"])]
        for network in sorted({row["network"] for row in own}):
            others = [row for row in own if row["network"] != network]
            if not others:
                continue
            asked = [row for row in own if row["network"] == network]
            low, high = error_tails(others)
            inside = (low <= residuals(asked)) & (residuals(asked) <= high)
            found.append(
                {
                    "engine": engine,
                    "network": network,
                    "dense": asked[0]["dense"],
                    "rows": len(asked),
                    "held": int(inside.sum()),
                    "tpot_inside_90_unseen": float(np.mean(inside)),
                }
            )
    return found


def tpot_scores(rows: Sequence[Row]) -> Row:
    """Return the interval score of predicted runs beside that of a constant width.

    The constant that scores a network is fitted to the runs of all other networks.

    Args:
        rows: From `predict_runs`.
    """
    own = [row for row in answered(rows) if row["tpot_s_high"] is not None]
    if not own:
        return dict.fromkeys(SCORES)
    ends = (
        np.log([row[f"tpot_s_{end}"] / row["tpot_s"] for row in own]) for end in ("low", "high")
    )
    low_N, high_N = ends
    networks = [row["network"] for row in own]
    return scores_beside_constant(residuals(own), (low_N, high_N), networks)


def share_held(networks: Sequence[Row]) -> float | None:
    """Return the share of runs inside over several networks, None for none.

    Args:
        networks: From `unseen_networks`.
    """
    runs = sum(row["rows"] for row in networks)
    return sum(row["held"] for row in networks) / runs if runs else None
