"""Errors of steps between laboratories: every source counts once, and is scored by the others.

Shape legend: N runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.serving.closed_form import StepTails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.lab.laboratories.sources import SourceRuns
    from perfatlas.operators import FloatArray

Row = dict[str, Any]
KINDS: Final = ("dense", "experts")
LEVEL: Final = 0.9
TAILS: Final = (0.05, 0.95)
NORMAL: Final = 1.645  # standard deviations of the half-width of a 90% interval
FEWEST: Final = 5  # runs of a source that is scored or counted
DIGITS: Final = 3
COMMAND: Final = "perfatlas validate sources"


def tails_of(residuals: Sequence[FloatArray]) -> StepTails:
    """Return the 5% and 95% quantiles of a mixture in which every source counts once.

    Args:
        residuals: ln(measured / predicted) by source.

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab.laboratories.spread import tails_of
        >>> tails = tails_of([np.zeros(1000), np.full(10, 0.5)])
        >>> tails.q05, tails.q95
        (0.0, 0.5)
    """
    values = np.concatenate(list(residuals))
    weights = np.concatenate([np.full(one.size, 1.0 / one.size) for one in residuals])
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    low, high = (values[order][np.searchsorted(share, at)] for at in TAILS)
    return StepTails(q05=float(low), q95=float(high))


def spread_of(residuals: Sequence[FloatArray]) -> StepTails:
    """Return the 90% interval of one run of any laboratory.

    The variances between and within sources add. Every source counts once in both, and the mean of
    the sources is the centre.

    Args:
        residuals: ln(measured / predicted) by source.

    Source: reproducibility variance of ISO 5725-2 (between laboratories plus repeatability), with
        equal weights; a normal distribution of the errors of runs.

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab.laboratories.spread import spread_of
        >>> tails = spread_of([np.full(9, -0.1), np.full(3, 0.1)])
        >>> round(tails.q05, 4), round(tails.q95, 4)
        (-0.1645, 0.1645)
    """
    center = float(np.mean([one.mean() for one in residuals]))
    variance = float(np.mean([np.square(one - center).mean() for one in residuals]))
    half = NORMAL * math.sqrt(variance)
    return StepTails(q05=center - half, q95=center + half)


def source_rows(sources: Sequence[SourceRuns]) -> list[Row]:
    """Return how well the interval fitted to all other sources holds for each source.

    Args:
        sources: The sources.

    Returns:
        By source and kind of model: errors, coverage by kernel errors alone, coverage and width of
        the interval fitted to the others, and interval scores in ln (Winkler: width plus 2/10% of
        what lies outside; smaller is better) of it and of an interval of constant width.
    """
    rows = []
    for kind in KINDS:
        own = [(one, of_kind(one, kind)) for one in sources]
        known = [(one, kept_N) for one, kept_N in own if kept_N.sum() >= FEWEST]
        for one, kept_N in known:
            others = [(other, some_N) for other, some_N in known if other is not one]
            logs = [other.residuals()[some_N] for other, some_N in others]
            ends = spread_of(logs), tails_of(logs)
            rows.append({"source": one.source, "models": kind, **_row(one, kept_N, *ends)})
    return rows


def of_kind(source: SourceRuns, kind: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which runs of a source belong to a kind of model (N,).

    Args:
        source: The source.
        kind: `dense` or `experts`.
    """
    return np.array([one == kind for one in source.kinds], np.bool_)


def _row(
    source: SourceRuns,
    kept_N: np.ndarray[Any, np.dtype[np.bool_]],
    tails: StepTails,
    plain: StepTails,
) -> Row:
    log_N = source.residuals()[kept_N]
    kernels = _limits(source, kept_N, StepTails())
    fitted = _limits(source, kept_N, tails)
    constant = (np.full(log_N.size, plain.q05), np.full(log_N.size, plain.q95))
    return {
        "runs": int(kept_N.sum()),
        "median_error": float(np.median(np.abs(np.expm1(-log_N)))),
        "median_ratio": float(np.exp(np.median(log_N))),
        "kernels_inside_90": _coverage(log_N, kernels),
        "inside_90": _coverage(log_N, fitted),
        "median_width": float(np.exp(np.median(fitted[1] - fitted[0]))),
        "interval_score": interval_score(log_N, fitted),
        "constant_width_score": interval_score(log_N, constant),
    }


def _limits(
    source: SourceRuns,
    kept_N: np.ndarray[Any, np.dtype[np.bool_]],
    tails: StepTails,
) -> tuple[FloatArray, FloatArray]:
    """Return the limits of ln(measured / predicted), each (N,)."""
    low_s, high_s = source.limits(tails.q05, tails.q95)
    low_N: FloatArray = np.log(low_s / source.predicted_s)[kept_N]
    high_N: FloatArray = np.log(high_s / source.predicted_s)[kept_N]
    return low_N, high_N


def _coverage(log_N: FloatArray, limits: tuple[FloatArray, FloatArray]) -> float:
    return float(((limits[0] <= log_N) & (log_N <= limits[1])).mean())


def interval_score(log_N: FloatArray, limits: tuple[FloatArray, FloatArray]) -> float:
    """Return the mean Winkler score of 90% intervals; smaller is better.

    Args:
        log_N: What was measured (N,).
        limits: Lower and upper limits, each (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab.laboratories.spread import interval_score
        >>> one = np.ones(1)
        >>> round(interval_score(1.5 * one, (0.0 * one, 1.0 * one)), 6)
        11.0
    """
    low_N, high_N = limits
    outside_N = np.maximum(low_N - log_N, 0.0) + np.maximum(log_N - high_N, 0.0)
    return float((high_N - low_N + 2.0 / (1.0 - LEVEL) * outside_N).mean())


def pooled(rows: Sequence[Row]) -> Row:
    """Return the means over sources, every source counting once.

    Args:
        rows: From `source_rows`.
    """
    names = [name for name in rows[0] if name not in ("source", "models", "runs")]
    means = {name: float(np.mean([row[name] for row in rows])) for name in names}
    runs = sum(row["runs"] for row in rows)
    return {"source": "all, each once", "models": "", "runs": runs, **means}


def spread_rows(sources: Sequence[SourceRuns]) -> dict[str, Row]:
    """Return the content of the shipped file, by kind of model.

    Args:
        sources: The sources.
    """
    found = {}
    for kind in KINDS:
        residuals = [one.residuals()[of_kind(one, kind)] for one in sources]
        known = [one for one in residuals if one.size >= FEWEST]
        tails = spread_of(known)
        found[kind] = {
            "q05": round(tails.q05, DIGITS),
            "q95": round(tails.q95, DIGITS),
            "sources": len(known),
            "runs": sum(one.size for one in known),
            "command": COMMAND,
        }
    return found
