"""Errors of steps between laboratories: every source counts once, and is scored by the others.

Shape legend: N runs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.engines import SUPPORT, run_support
from perfatlas.inference import StepTails
from validation.scoring import interval_score

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray
    from validation.laboratories.predictions import SourceRuns

Row = dict[str, Any]
KINDS: Final = ("dense", "experts")
TAILS: Final = (0.05, 0.95)
NORMAL: Final = 1.645  # standard deviations of the half-width of a 90% interval
DEVIATIONS: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)  # of whole runs
MIN_RUNS: Final = 5  # runs of a source that is scored or counted
HELD: Final = 0.8  # share of the runs of a measured kind inside the ordinary interval
DIGITS: Final = 3
COMMAND: Final = "python -m validation sources"


class Quantiles(NamedTuple):
    """The 5% and 95% quantiles of ln(measured / predicted)."""

    q05: float
    q95: float


def tails_of(residuals: Sequence[FloatArray]) -> Quantiles:
    """Return the 5% and 95% quantiles of a mixture in which every source counts once.

    Args:
        residuals: ln(measured / predicted) by source.

    Example:
        >>> import numpy as np
        >>> from validation.laboratories.spread import tails_of
        >>> tails = tails_of([np.zeros(1000), np.full(10, 0.5)])
        >>> tails.q05, tails.q95
        (0.0, 0.5)
    """
    values = np.concatenate(list(residuals))
    weights = np.concatenate(
        [np.full(residual.size, 1.0 / residual.size) for residual in residuals]
    )
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    low, high = (values[order][np.searchsorted(share, at)] for at in TAILS)
    return Quantiles(float(low), float(high))


class Errors(NamedTuple):
    """Errors of the runs of one source with one kind of model."""

    kind: str  # `dense` or `experts`
    logs_N: FloatArray  # ln(measured / predicted) (N,)
    laboratory_N: FloatArray  # Deviation of ln(time) by operators on other machines (N,)


def fitted_tails(errors: Sequence[Errors]) -> dict[str, StepTails]:
    """Return the errors of runs of any laboratory, by kind of model.

    The center of a kind is the mean over its sources. The deviation of a step is that of its
    operators and one of whole runs, in quadrature. That of whole runs is the most likely one for
    Laplace distributions, whose tails are as heavy as those of runs; limits are the 5% and 95%
    quantiles of the errors in units of their deviation. Every source counts once.

    Source: variances between laboratories add to those within (ISO 5725-2); Laplace distributions
        and equal weights are assumptions.

    Example:
        >>> import numpy as np
        >>> from validation.laboratories.spread import Errors, fitted_tails
        >>> logs = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
        >>> tails = fitted_tails([Errors("dense", logs, np.full(5, 0.1))])["dense"]
        >>> low, high = tails.limits(np.full(1, 0.1))
        >>> round(float(low[0]), 6), round(float(high[0]), 6)
        (-0.2, 0.2)
    """
    kinds = dict.fromkeys(error.kind for error in errors)
    centers = {
        kind: float(np.mean([error.logs_N.mean() for error in errors if error.kind == kind]))
        for kind in kinds
    }
    away = [error.logs_N - centers[error.kind] for error in errors]
    chosen = min(DEVIATIONS, key=lambda at: _unlikelihood(away, errors, at))
    units = [
        away_N / np.hypot(chosen, error.laboratory_N)
        for away_N, error in zip(away, errors, strict=True)
    ]
    plain = tails_of(units)
    return {
        kind: StepTails(center=center, deviation=chosen, lower=-plain.q05, upper=plain.q95)
        for kind, center in centers.items()
    }


def _unlikelihood(away: Sequence[FloatArray], errors: Sequence[Errors], deviation: float) -> float:
    """Return -ln of the likelihood of Laplace distributions of one common scale, but a constant."""
    widths = [np.hypot(deviation, error.laboratory_N) for error in errors]
    units = [np.abs(a / w).mean() for a, w in zip(away, widths, strict=True)]
    scale = max(float(np.mean(units)), np.finfo(np.float64).tiny)  # 0 of errors that are equal
    return math.log(scale) + float(np.mean([np.log(w).mean() for w in widths]))


def source_rows(sources: Sequence[SourceRuns]) -> list[Row]:
    """Return how well the interval fitted to all other sources holds for each source.

    Returns:
        By source and kind of model: errors, coverage by kernel errors alone, coverage and width of
        the interval fitted to the others, and interval scores in ln (Winkler: width plus 2/10% of
        what lies outside; smaller is better) of it and of an interval of constant width.
    """
    return [
        {"source": source.source, "models": kind, **_row(source, kept_N, tails, others)}
        for source, kind, kept_N, tails, others in _left_out(sources)
    ]


def support_rows(sources: Sequence[SourceRuns]) -> list[Row]:
    """Return `source_rows` by what the other sources support, one of `SUPPORT`.

    The part of a source that is supported alike counts once, with `MIN_RUNS` runs or more.
    """
    found: dict[str, list[Row]] = {}
    for source, _, kept_N, tails, others in _left_out(sources):
        runs = measured_row([other for other in sources if other is not source])
        labels = zip(source.kinds, source.stacks, strict=True)
        words_N = np.array([run_support(runs, *label) for label in labels])
        for word in SUPPORT:
            part_N = kept_N & (words_N == word)
            if part_N.sum() >= MIN_RUNS:
                found.setdefault(word, []).append(_row(source, part_N, tails, others))
    return [{**pooled(found[word]), "source": word} for word in SUPPORT if word in found]


def _left_out(
    sources: Sequence[SourceRuns],
) -> Iterator[tuple[SourceRuns, str, NDArray[np.bool_], StepTails, list[FloatArray]]]:
    """Yield each source by kind, its runs, and the tails and the errors of all others of it."""
    known = [
        (source, kind, kept_N)
        for kind in KINDS
        for source in sources
        if (kept_N := of_kind(source, kind)).sum() >= MIN_RUNS
    ]
    for source_runs, kind, kept_N in known:
        others = [(other, k, some_N) for other, k, some_N in known if other is not source_runs]
        tails = fitted_tails([_errors(*other) for other in others])[kind]
        plain = [other.residuals()[some_N] for other, k, some_N in others if k == kind]
        yield source_runs, kind, kept_N, tails, plain


def _errors(source: SourceRuns, kind: str, kept_N: NDArray[np.bool_]) -> Errors:
    return Errors(kind, source.unexplained()[kept_N], source.laboratory[kept_N])


def of_kind(source: SourceRuns, kind: str) -> NDArray[np.bool_]:
    """Return which runs of a source belong to a kind of model (N,).

    Args:
        kind: `dense` or `experts`.
    """
    return np.array([text == kind for text in source.kinds], np.bool_)


def _row(
    source: SourceRuns,
    kept_N: NDArray[np.bool_],
    tails: StepTails,
    others: Sequence[FloatArray],
) -> Row:
    log_N = source.residuals()[kept_N]
    kernels = _limits(source, kept_N, StepTails())
    fitted = _limits(source, kept_N, tails)
    factor = np.median([np.median(other_N) for other_N in others])
    return {
        "runs": int(kept_N.sum()),
        "median_error": float(np.median(np.abs(np.expm1(-log_N)))),
        "median_ratio": float(np.exp(np.median(log_N))),
        "kernels_inside_90": _coverage(log_N, kernels),
        "inside_90": _coverage(log_N, fitted),
        "median_width": float(np.exp(np.median(fitted[1] - fitted[0]))),
        "interval_score": interval_score(log_N, *fitted),
        "constant_width_score": interval_score(log_N, *tails_of(others)),
        "rescaled_error": float(np.median(np.abs(np.expm1(factor - log_N)))),
    }


def _limits(
    source: SourceRuns,
    kept_N: NDArray[np.bool_],
    tails: StepTails,
) -> tuple[FloatArray, FloatArray]:
    """Return the limits of ln(measured / predicted), each (N,)."""
    low_s, high_s = source.limits(tails)
    low_N: FloatArray = np.log(low_s / source.predicted_s)[kept_N]
    high_N: FloatArray = np.log(high_s / source.predicted_s)[kept_N]
    return low_N, high_N


def _coverage(log_N: FloatArray, limits: tuple[FloatArray, FloatArray]) -> float:
    return float(((limits[0] <= log_N) & (log_N <= limits[1])).mean())


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
    """Return the content of the shipped file: the spread of whole runs and its center by kind."""
    errors = [
        _errors(source, kind, kept_N)
        for kind in KINDS
        for source in sources
        if (kept_N := of_kind(source, kind)).sum() >= MIN_RUNS
    ]
    tails = fitted_tails(errors)
    whole = next(iter(tails.values()))
    shared = {
        "deviation": round(whole.deviation, DIGITS),
        "lower": round(whole.lower, DIGITS),
        "upper": round(whole.upper, DIGITS),
        **_counted(errors),
    }
    centers = {
        kind: {
            "center": round(tails[kind].center, DIGITS),
            **_counted([error for error in errors if error.kind == kind]),
        }
        for kind in tails
    }
    unseen = unseen_row(sources, tails)
    return {"whole": shared, "spread": centers, "unseen": unseen, "measured": measured_row(sources)}


def measured_row(sources: Sequence[SourceRuns]) -> Row:
    """Return the devices with `MIN_RUNS` runs of a source, by kind, engine and architecture."""
    of_sources = (
        Counter((kind, *stack) for kind, stack in zip(source.kinds, source.stacks, strict=True))
        for source in sources
    )
    known = {key for counts in of_sources for key, runs in counts.items() if runs >= MIN_RUNS}
    found: Row = {}
    for kind, engine, architecture, device in sorted(known):
        devices = found.setdefault(kind, {}).setdefault(engine, {})
        devices.setdefault(architecture, []).append(device)
    return found


def unseen_row(sources: Sequence[SourceRuns], ordinary: Mapping[str, StepTails]) -> Row:
    """Return limits that hold 90% of the runs of each kind, and what was measured of each kind.

    A kind is what tells runs of an engine on an architecture apart, with `MIN_RUNS` runs or more.
    Plain transformers are none, as unseen kinds are never plain. It counts as measured where
    `HELD` of its runs are in the ordinary interval.

    Args:
        ordinary: Errors of whole runs, dense and with experts.
    """
    errors: dict[tuple[str, ...], list[tuple[float, bool]]] = {}
    for source in sources:
        ends = {kind: source.limits(ordinary[kind]) for kind in ordinary}
        labels = zip(source.stacks, source.kinds, source.parts, source.measured_s, strict=True)
        logs = source.unexplained().tolist()
        for place, (stack, kind, parts, measured_s) in enumerate(labels):
            if parts:
                low_s, high_s = (end_N[place] for end_N in ends[kind])
                run = logs[place], bool(low_s <= measured_s <= high_s)
                errors.setdefault((*stack[:2], kind, *parts), []).append(run)
    known = {
        key: list(zip(*r, strict=True)) for key, r in sorted(errors.items()) if len(r) >= MIN_RUNS
    }
    limits = [tails_of([np.array(logs)]) for logs, _ in known.values()]
    held = [key for key, (_, inside) in known.items() if np.mean(inside) >= HELD]
    measured: dict[str, dict[str, list[str]]] = {}
    for part, engine, architecture in sorted({(p, *key[:2]) for key in held for p in key[3:]}):
        measured.setdefault(part, {}).setdefault(engine, []).append(architecture)
    return {
        "low": round(min(tails.q05 for tails in limits), DIGITS),
        "high": round(max(tails.q95 for tails in limits), DIGITS),
        "kinds": len(known),
        "runs": sum(len(logs) for logs, _ in known.values()),
        "command": COMMAND,
        "measured": measured,
    }


def _counted(errors: Sequence[Errors]) -> Row:
    runs = sum(error.logs_N.size for error in errors)
    return {"sources": len(errors), "runs": runs, "command": COMMAND}
