"""Evidence of a fitted fleet: windows, counts, intervals, hashed logs, lemon nodes."""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import counted
from perfatlas.reliability.telemetry.fits import kaplan_meier
from perfatlas.reliability.telemetry.fleets import laws
from perfatlas.reliability.telemetry.fleets.cause import MIN_EVENTS
from perfatlas.reliability.telemetry.history import JOB, PROCESS, lasting_states

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.fits import CauseRow
    from perfatlas.reliability.telemetry.fleets.fit import FleetFit
    from perfatlas.reliability.telemetry.fleets.records import CauseFit
    from perfatlas.reliability.telemetry.history import Lifetimes
    from perfatlas.reliability.telemetry.reading import FileCounts

CURVE_POINTS: Final = 9  # points of a survival curve, spread over the ages at which parts failed


def evidence_document(fit: FleetFit) -> dict[str, Any]:
    """Return the evidence of a fitted fleet as a document for TOML."""
    repairs = laws.repairs_taken(fit)
    watches = {}
    for component, watch in fit.watches.items():
        start, end = (dt.datetime.fromtimestamp(s, dt.UTC) for s in (watch.start_s, watch.end_s))
        watches[component] = {"units": watch.units, "start": start, "end": end}
    return {
        "rate_kind": f"events of kind {', '.join(fit.options.kinds)}",
        "failures_taken_as_effects": fit.cascades,
        "level": fit.options.level,
        "utilization": None if fit.utilization is None else laws.short(fit.utilization),
        "log_agreement": fit.agreement.counts() if fit.agreement else None,
        "availability": availability_fields(fit),
        "watches": watches,
        "cause": [
            _evidence(fit, cause, row, repairs[cause.name] or "none")
            for cause, row in zip(fit.causes, fit.ranking, strict=True)
        ],
        "file": [file_row(file) for file in fit.history.files],
    }


def _survival(seen: Lifetimes | None, level: float) -> dict[str, Any] | None:
    """Return the share of parts that live longer than some ages, without a law (Kaplan-Meier)."""
    if seen is None or seen.failures < MIN_EVENTS:
        return None
    curve = kaplan_meier(seen, level)
    rows = np.unique(np.linspace(0, curve.time_T.size - 1, CURVE_POINTS).round().astype(int))
    rows = rows[curve.survival_T[rows] > 0.0]  # no interval where no unit is left
    columns = {"share": curve.survival_T, "low": curve.low_T, "high": curve.high_T}
    figures = {name: [laws.short(value) for value in of_T[rows]] for name, of_T in columns.items()}
    return {"age": [laws.time_text(age) for age in curve.time_T[rows].tolist()], **figures}


def _evidence(fit: FleetFit, cause: CauseFit, row: CauseRow, taken: str) -> dict[str, Any]:
    """Return the evidence of a cause, given its row in the ranking and its repair in the fleet."""
    intervals, rate = cause.intervals, cause.rate
    repair = cause.repair
    fits = cause.comparison.fits if cause.comparison else ()
    exposure_kind = "observation window"
    if cause.under_jobs:
        exposure_kind = "job-hours" if cause.component == JOB else "node-hours under jobs"
    fleet_s = rate.exposure_s / rate.events / fit.watches[cause.component].units
    lemon_nodes: list[dict[str, Any]] = []
    if (lemons := cause.lemons) is not None:
        lemon_nodes = [
            {
                "node": lemons.units[index],
                "events": int(lemons.events_U[index]),
                "probability": laws.short(float(lemons.probability_U[index])),
                "mean_time_between": laws.time_text(1.0 / float(lemons.rate_per_s_U[index])),
            }
            for index in range(lemons.flagged)
        ]
    remarks = list(cause.remarks)
    unrecorded = repair.unrecorded if repair else intervals.failures
    if unrecorded and taken != "none":
        whose = "all causes" if taken == laws.ANY_REPAIR else "the others of this cause"
        text = counted(unrecorded, "failure")
        remarks.insert(
            0, f"{text} without a recorded repair time: the fleet assumes those of {whose}"
        )
    return {
        "name": cause.name,
        "events": intervals.failures,
        "exposure": laws.time_text(intervals.exposure_s),
        "exposure_kind": exposure_kind,
        "action": cause.action or None,
        "mean_time_between": laws.time_text(1.0 / rate.observed_per_s),
        "mean_time_between_interval": laws.ends_text(1.0 / rate.high_per_s, 1.0 / rate.low_per_s),
        "mean_time_between_without_lemons": laws.time_text(1.0 / cause.without_lemons_per_s)
        if cause.separable_lemons
        else None,
        "lemon_factor": laws.short(cause.lemon_factor) if cause.separable_lemons else None,
        "share": laws.short(row.share),
        "share_interval": [laws.short(row.share_low), laws.short(row.share_high)],
        "more_frequent_than_next": None
        if math.isnan(row.above_next)
        else laws.short(row.above_next),
        "fleet_mean_time_between": laws.time_text(fleet_s),
        "repair_taken": taken,
        "survival": _survival(intervals.seen, fit.options.level),
        "law_interval": laws.law_interval(cause.law) if cause.law else None,
        "aic": {fit.family: laws.short(fit.aic) for fit in fits} or None,
        "repairs": repair.seen.failures if repair else 0,
        "repairs_not_told": unrecorded,
        "repair_interval": laws.law_interval(repair.best) if repair and repair.best else None,
        "lemon_nodes": lemon_nodes or None,
        "remarks": remarks,
    }


def availability_fields(fit: FleetFit) -> dict[str, Any]:
    """Return the availability of a node, "unknown" where no log has repair times.

    Logs that report only failures that leave the node up do not determine its availability.
    """
    taken = laws.repairs_taken(fit)
    by_name = {cause.name: cause.repair for cause in fit.causes if cause.repair is not None}
    of_nodes = [c for c in fit.causes if c.component != JOB and c.action != PROCESS]
    downtime, without = 0.0, []
    for cause in of_nodes:
        durations = by_name.get(taken[cause.name]) or (fit.repair if taken[cause.name] else None)
        if durations is None:
            without.append(cause.name)
            continue
        mean_s = cause.mean_down_s or durations.seen.exposure / durations.seen.failures
        parts = fit.watches[cause.component].units / fit.nodes
        downtime += cause.rate.observed_per_s * parts * mean_s
    if without or not of_nodes:
        return {"node": "unknown", "without_repair_times": without}
    history = fit.history
    open_E = lasting_states(history) & np.isnan(history.recovered_s_E)
    down_E = open_E & history.kind.is_any(fit.options.kinds)
    figures = {
        "states_without_end": int(np.count_nonzero(down_E)),
        "states_without_end_not_counted": int(np.count_nonzero(open_E & ~down_E)),
    }
    return {
        "node": laws.short(1.0 / (1.0 + downtime)),
        **{name: count for name, count in figures.items() if count},
    }


def file_row(file: FileCounts) -> dict[str, Any]:
    """Return the line counts of a file, with its hash."""
    return {
        "path": file.path,
        "hash": file.data_hash,
        file.unit: file.total,
        "parsed": file.parsed,
        "merged": dict(file.merged) or None,
        "ignored": dict(file.ignored) or None,
        "repaired": dict(file.repaired) or None,
    }
