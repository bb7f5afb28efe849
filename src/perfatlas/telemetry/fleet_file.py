"""A fitted fleet as a TOML file: laws a simulator runs, and beside them the evidence they rest on.

`units`, `gpus_per_unit`, `[[causes]]` and `[[repairs]]` describe the fleet in the terms of the
simulator: a law is a table with `law` and its parameters, times are text with a unit. All else
stands under `[evidence]`: intervals, counts, files with their hashes, lemon nodes, remarks.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any

from perfatlas.files import format_toml, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from perfatlas.telemetry.fits import Fit
    from perfatlas.telemetry.fleet_fit import CauseFit, Durations, FleetFit
    from perfatlas.telemetry.lemons import Lemons


def write_fleet(path: str | Path, fit: FleetFit, *, name: str = "fitted") -> None:
    """Write a fitted fleet, whole or not at all.

    Args:
        path: The file.
        fit: What a history says of the fleet.
        name: Name of the fleet.

    Raises:
        InvalidSpecError: The file cannot be written.
    """
    write_atomic(path, format_toml(fleet_document(fit, name=name)))


def fleet_document(fit: FleetFit, *, name: str = "fitted") -> dict[str, Any]:
    """Return a fitted fleet as the document that `write_fleet` writes.

    Args:
        fit: What a history says of the fleet.
        name: Name of the fleet.
    """
    gpus = fit.watches["gpu"].units / fit.nodes if "gpu" in fit.watches else 0.0
    repairs = [_repair(cause) for cause in fit.causes if cause.repair and cause.component != "job"]
    return {
        "name": name,
        "units": fit.nodes,
        "gpus_per_unit": int(gpus) if gpus and gpus.is_integer() else None,
        "causes": [_cause(cause, fit) for cause in fit.causes],
        "repairs": repairs or None,
        "evidence": {
            "rate_kind": f"events of kind {', '.join(fit.options.kinds)}",
            "failures_taken_as_effects": fit.cascades,
            "level": fit.options.level,
            "watches": {component: _watch(fit, component) for component in fit.watches},
            "causes": [_evidence(cause, share) for cause, share in _with_shares(fit)],
            "files": [_file(fit, index) for index in range(len(fit.history.files))],
        },
    }


def _name(cause: CauseFit) -> str:
    return f"{cause.component}_{cause.cause}"


def _time(seconds: float) -> str:
    return f"{seconds:.8g} s"


def _short(value: float) -> float:
    """Return a number to the digits that are worth reading."""
    return float(f"{value:.8g}")


def _ends(low: float, high: float) -> list[str]:
    return [_time(low), _time(high)]


def _cause(cause: CauseFit, fit: FleetFit) -> dict[str, Any]:
    """Return the fields of the fleet room's Cause."""
    is_shared = cause.component == "job"
    parts = fit.watches[cause.component].units / fit.nodes
    lemons = None if is_shared else _lemon_law(cause.lemons)
    if lemons and cause.lemons:
        # Lemons are told by node: the parts of a node share its rate.
        mean = _time(parts / cause.lemons.median_per_s)
        lifetime: dict[str, Any] = {"law": "exponential", "mean": mean}
    elif cause.law is None:
        lifetime = {"law": "exponential", "mean": _time(1.0 / cause.rate.mean_per_s)}
    else:
        lifetime = law_of(cause.law)
    return {
        "name": _name(cause),
        "lifetime": lifetime,
        "per_unit": None if is_shared else parts,
        "shared": 1.0 if is_shared else None,
        "ages": "mixed" if cause.law is not None else None,
        "as_old": True if fit.options.repair == "as_old" else None,
        "detection": _duration_law(cause.detection) if cause.detection else None,
        "repair": _name(cause) if cause.repair and not is_shared else None,
        "lemons": lemons,
    }


def _lemon_law(lemons: Lemons | None) -> dict[str, float] | None:
    if lemons is None or not lemons.flagged or not math.isfinite(lemons.lemon_per_s):
        return None
    factor = lemons.lemon_per_s / lemons.median_per_s
    return {"share": _short(lemons.lemon_share), "factor": _short(factor)}


def law_of(fit: Fit) -> dict[str, Any]:
    """Return a law of durations in seconds as the fleet room names its parameters.

    Args:
        fit: Fitted to seconds.

    Example:
        >>> from perfatlas.telemetry.families import EXPONENTIAL
        >>> from perfatlas.telemetry.fits import fit_family
        >>> from perfatlas.telemetry.fleet_file import law_of
        >>> from perfatlas.telemetry.lifetimes import lifetimes
        >>> law_of(fit_family(EXPONENTIAL, lifetimes([2.0, 6.0], [True, False])))
        {'law': 'exponential', 'mean': '8 s'}
    """
    value = fit.parameters
    if fit.family == "exponential":
        return {"law": "exponential", "mean": _time(1.0 / value["rate"])}
    if fit.family == "weibull":
        return {"law": "weibull", "shape": _short(value["shape"]), "scale": _time(value["scale"])}
    median = _time(math.exp(value["mu"]))
    return {"law": "lognormal", "median": median, "sigma": _short(value["sigma"])}


def _intervals(fit: Fit) -> dict[str, Any]:
    low, high = fit.low, fit.high
    if fit.family == "exponential":
        return {"mean": _ends(1.0 / high["rate"], 1.0 / low["rate"])}
    if fit.family == "weibull":
        scale = _ends(low["scale"], high["scale"])
        return {"shape": [_short(low["shape"]), _short(high["shape"])], "scale": scale}
    median = _ends(math.exp(low["mu"]), math.exp(high["mu"]))
    return {"median": median, "sigma": [_short(low["sigma"]), _short(high["sigma"])]}


def _duration_law(durations: Durations) -> dict[str, Any]:
    """Return a fitted law, or what was observed where that is too little for one."""
    if durations.best is not None:
        return law_of(durations.best)
    seen = durations.seen
    values = [
        _time(length)
        for length, weight in zip(seen.exit_L.tolist(), seen.weight_L.tolist(), strict=True)
        for _ in range(int(weight))
    ]
    if len(values) == 1:
        return {"law": "constant", "value": values[0]}
    return {"law": "empirical", "values": values}


def _repair(cause: CauseFit) -> dict[str, Any]:
    if cause.repair is None:
        raise ValueError(f"no repairs of {_name(cause)}")
    stage = {"name": "observed", "lasts": _duration_law(cause.repair)}
    return {"name": _name(cause), "stages": [stage]}


def _with_shares(fit: FleetFit) -> list[tuple[CauseFit, dict[str, Any]]]:
    """Return each cause with its place in the ranking."""
    shares = []
    for cause, row in zip(fit.causes, fit.ranking, strict=True):
        ends = [_short(row.share_low), _short(row.share_high)]
        told = {"share": _short(row.share), "share_interval": ends}
        above = None if math.isnan(row.above_next) else _short(row.above_next)
        shares.append((cause, told | {"more_frequent_than_next": above}))
    return shares


def _evidence(cause: CauseFit, share: dict[str, Any]) -> dict[str, Any]:
    spells, rate = cause.spells, cause.rate
    repair = cause.repair
    fits = cause.comparison.fits if cause.comparison else ()
    return {
        "name": _name(cause),
        "events": spells.failures,
        "exposure": _time(spells.exposure_s),
        "mean_time_between": _time(1.0 / rate.mean_per_s),
        "mean_time_between_interval": _ends(1.0 / rate.high_per_s, 1.0 / rate.low_per_s),
        **share,
        "law_interval": _intervals(cause.law) if cause.law else None,
        "aic": {fit.family: _short(fit.aic) for fit in fits} or None,
        "repairs": repair.seen.failures if repair else 0,
        "repairs_not_told": repair.not_told if repair else spells.failures,
        "repair_interval": _intervals(repair.best) if repair and repair.best else None,
        "lemon_nodes": _lemon_rows(cause.lemons),
        "remarks": list(cause.remarks),
    }


def _lemon_rows(lemons: Lemons | None) -> list[dict[str, Any]] | None:
    if lemons is None or not lemons.flagged:
        return None
    return [
        {
            "node": lemons.units[row],
            "events": int(lemons.events_U[row]),
            "probability": _short(float(lemons.probability_U[row])),
            "mean_time_between": _time(1.0 / float(lemons.rate_per_s_U[row])),
        }
        for row in range(lemons.flagged)
    ]


def _watch(fit: FleetFit, component: str) -> dict[str, Any]:
    watch = fit.watches[component]
    start, end = (dt.datetime.fromtimestamp(s, dt.UTC) for s in (watch.start_s, watch.end_s))
    return {"units": watch.units, "start": start, "end": end}


def _file(fit: FleetFit, index: int) -> dict[str, Any]:
    file = fit.history.files[index]
    return {
        "path": file.path,
        "hash": file.data_hash,
        file.unit: file.total,
        "parsed": file.parsed,
        "merged": dict(file.merged) or None,
        "ignored": dict(file.ignored) or None,
        "repaired": dict(file.repaired) or None,
    }
