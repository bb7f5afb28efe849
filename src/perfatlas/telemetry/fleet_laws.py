"""Fitted laws in the terms of the simulator: names of parameters, times as text with a unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfatlas.telemetry.fits import Fit
    from perfatlas.telemetry.fleet_fit import Durations


def time_text(value: float, unit: str = "s") -> str:
    """Return a time with its unit, to eight digits.

    Args:
        value: The time [unit].
        unit: Of time.
    """
    return f"{value:.8g} {unit}"


def ends_text(low: float, high: float, unit: str = "s") -> list[str]:
    """Return both ends of an interval of times.

    Args:
        low: Lower end [unit].
        high: Upper end [unit].
        unit: Of time.
    """
    return [time_text(low, unit), time_text(high, unit)]


def short(value: float) -> float:
    """Return a number to eight digits, as many as are worth reading.

    Args:
        value: The number.
    """
    return float(f"{value:.8g}")


def fit_law(fit: Fit, unit: str = "s") -> dict[str, Any]:
    """Return a law of durations as the simulator names its parameters.

    Args:
        fit: Fitted to times in `unit`.
        unit: Of time.

    Example:
        >>> from perfatlas.telemetry.families import EXPONENTIAL
        >>> from perfatlas.telemetry.fits import fit_family
        >>> from perfatlas.telemetry.fleet_laws import fit_law
        >>> from perfatlas.telemetry.lifetimes import lifetimes
        >>> fit_law(fit_family(EXPONENTIAL, lifetimes([2.0, 6.0], [True, False])))
        {'law': 'exponential', 'mean': '8 s'}
    """
    value = fit.parameters
    if fit.family == "exponential":
        return {"law": "exponential", "mean": time_text(1.0 / value["rate"], unit)}
    if fit.family == "weibull":
        return {
            "law": "weibull",
            "shape": short(value["shape"]),
            "scale": time_text(value["scale"], unit),
        }
    median = time_text(math.exp(value["mu"]), unit)
    return {"law": "lognormal", "median": median, "sigma": short(value["sigma"])}


def law_interval(fit: Fit, unit: str = "s") -> dict[str, Any]:
    """Return the intervals of a law of durations, by the names of `fit_law`.

    Args:
        fit: Fitted to times in `unit`.
        unit: Of time.
    """
    low, high = fit.low, fit.high
    if fit.family == "exponential":
        longest = 1.0 / low["rate"] if low["rate"] else math.inf
        return {"mean": ends_text(1.0 / high["rate"], longest, unit)}
    if fit.family == "weibull":
        scale = ends_text(low["scale"], high["scale"], unit)
        return {"shape": [short(low["shape"]), short(high["shape"])], "scale": scale}
    median = ends_text(math.exp(low["mu"]), math.exp(high["mu"]), unit)
    return {"median": median, "sigma": [short(low["sigma"]), short(high["sigma"])]}


def duration_law(durations: Durations) -> dict[str, Any]:
    """Return a fitted law, or what was observed where that is too little for one.

    Args:
        durations: The durations [s].

    Limits: Few durations of which some were not over become an exponential law of their mean.
    """
    if durations.best is not None:
        return fit_law(durations.best)
    seen = durations.seen
    if not seen.failed_L.all():
        return {"law": "exponential", "mean": time_text(seen.exposure / seen.failures)}
    rows = zip(seen.exit_L.tolist(), seen.weight_L.tolist(), strict=True)
    values = [time_text(length) for length, weight in rows for _ in range(int(weight))]
    if len(values) == 1:
        return {"law": "constant", "value": values[0]}
    return {"law": "empirical", "values": values}
