"""Fitted distributions in the format of the simulator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.reliability.telemetry.history import JOB, PROCESS

if TYPE_CHECKING:
    from collections.abc import Callable

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


class _Parameter(NamedTuple):
    """A parameter of a law of the simulator."""

    name: str
    fitted: str  # Parameter of the fit that determines it
    convert: Callable[[float], float]
    show: Callable[[float], str | float]


_LAWS: Final = {
    "exponential": (_Parameter("mean", "rate", lambda v: 1.0 / v if v else math.inf, time_text),),
    "weibull": (
        _Parameter("shape", "shape", float, short),
        _Parameter("scale", "scale", float, time_text),
    ),
    "lognormal": (
        _Parameter("median", "mu", math.exp, time_text),
        _Parameter("sigma", "sigma", float, short),
    ),
}


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
    values = {p.name: p.show(p.convert(fit.parameters[p.fitted])) for p in _LAWS[fit.family]}
    return {"law": fit.family, **values}


def law_interval(fit: Fit) -> dict[str, Any]:
    """Return the parameter intervals of a distribution, by the names of `fit_law`.

    Args:
        fit: Fit to times [s].
    """
    return {
        p.name: [p.show(v) for v in sorted(p.convert(end[p.fitted]) for end in (fit.low, fit.high))]
        for p in _LAWS[fit.family]
    }


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
