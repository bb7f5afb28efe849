"""Fitted distributions in the format of the simulator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.reliability.telemetry.history import JOB, PROCESS

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fits import Fit
    from perfatlas.reliability.telemetry.fleets.fit import FleetFit
    from perfatlas.reliability.telemetry.fleets.records import Durations

# The simulator supports a few dozen distributions: the rarest causes of a component are merged.
MAX_CAUSES: Final = 16
MAX_REPAIRS: Final = 10
ANY_REPAIR: Final = "observed"  # of all causes combined


def repairs_taken(fit: FleetFit) -> dict[str, str]:
    """Return the repair of each cause in the fleet: its own, that of all causes, or "".

    A failure that a restart of the program ends needs no repair.
    """
    of_nodes = [c for c in fit.causes if c.component != JOB and c.action != PROCESS]
    with_repair = {cause.name for cause in fit.causes[:MAX_CAUSES] if cause.repair is not None}
    separate = [cause.name for cause in of_nodes if cause.name in with_repair][:MAX_REPAIRS]
    others = ANY_REPAIR if fit.repair is not None else ""
    taken = {cause.name: "" for cause in fit.causes}
    return taken | {cause.name: others for cause in of_nodes} | {name: name for name in separate}


def time_text(value: float) -> str:
    """Return a time [s] with its unit, to eight digits."""
    return f"{value:.8g} s"


def ends_text(low: float, high: float) -> list[str]:
    """Return both ends of an interval of times [s]."""
    return [time_text(low), time_text(high)]


def short(value: float) -> float:
    """Return a number rounded to eight digits."""
    return float(f"{value:.8g}")


def fit_law(fit: Fit) -> dict[str, Any]:
    """Return a distribution with the parameter names of the simulator.

    Args:
        fit: Fit to times [s].

    Example:
        >>> from perfatlas.reliability.telemetry.fits.distributions import EXPONENTIAL
        >>> from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
        >>> from perfatlas.reliability.telemetry.fleets.laws import fit_law
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> fit_law(fit_family(EXPONENTIAL, lifetimes([2.0, 6.0], [True, False])))
        {'law': 'exponential', 'mean': '8 s'}
    """
    value = fit.parameters
    if fit.family == "exponential":
        return {"law": "exponential", "mean": time_text(1.0 / value["rate"])}
    if fit.family == "weibull":
        return {
            "law": "weibull",
            "shape": short(value["shape"]),
            "scale": time_text(value["scale"]),
        }
    median = time_text(math.exp(value["mu"]))
    return {"law": "lognormal", "median": median, "sigma": short(value["sigma"])}


def law_interval(fit: Fit) -> dict[str, Any]:
    """Return the parameter intervals of a distribution, by the names of `fit_law`.

    Args:
        fit: Fit to times [s].
    """
    low, high = fit.low, fit.high
    if fit.family == "exponential":
        longest = 1.0 / low["rate"] if low["rate"] else math.inf
        return {"mean": ends_text(1.0 / high["rate"], longest)}
    if fit.family == "weibull":
        scale = ends_text(low["scale"], high["scale"])
        return {"shape": [short(low["shape"]), short(high["shape"])], "scale": scale}
    median = ends_text(math.exp(low["mu"]), math.exp(high["mu"]))
    return {"median": median, "sigma": [short(low["sigma"]), short(high["sigma"])]}


def duration_law(durations: Durations) -> dict[str, Any]:
    """Return a fitted distribution, or one of the few observed durations.

    Args:
        durations: The durations [s].

    Limits: Equal durations give a constant. Few, partly censored durations give an exponential
        distribution with their mean.
    """
    seen = durations.seen
    if seen.failed_L.all() and seen.exit_L.min() == seen.exit_L.max():
        return {"law": "constant", "value": time_text(float(seen.exit_L[0]))}
    if durations.best is not None:
        return fit_law(durations.best)
    if not seen.failed_L.all():
        return {"law": "exponential", "mean": time_text(seen.exposure / seen.failures)}
    rows = zip(seen.exit_L.tolist(), seen.weight_L.tolist(), strict=True)
    values = [time_text(length) for length, weight in rows for _ in range(int(weight))]
    return {"law": "empirical", "values": values}
