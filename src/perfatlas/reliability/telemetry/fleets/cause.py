"""Fit of one cause of a history: rate, distribution, lemons and repairs.

Distribution of a cause: with at least ten failures of known age, the family of the smallest AIC,
scaled to the mean given by the failure rate; otherwise the exponential distribution, whose rate
needs no ages. With lemon nodes it is the exponential distribution of the other nodes, with separate
lemons, as their mixture would look like infant mortality.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.stats import binomtest

from perfatlas.quantities import DAY_S, InfeasibleError, counted, significant
from perfatlas.reliability.telemetry import fits
from perfatlas.reliability.telemetry.fleets import records
from perfatlas.reliability.telemetry.history import (
    ACTIONS,
    JOB,
    SEEN_UNDER_JOBS,
    ObservationWindow,
    SurvivalIntervals,
    check_window,
    failure_intervals,
    lifetimes,
    operating_intervals,
    repair_times,
)
from perfatlas.sampling import RatePosterior, rate_posterior

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history import Lifetimes, OperatingTime

    Bool = NDArray[np.bool_]

MIN_EVENTS: Final = 10  # failures or repairs below which no shape is fitted
_BY_LOAD_P: Final = 0.01  # level of the test whether busy nodes fail more often
_BEST_AIC: Final = 2.0  # AIC margin by which two parameters must beat the exponential distribution


class CauseRate(NamedTuple):
    """The failure rate of a cause."""

    row: fits.CauseRow  # Its row in the ranking
    rate: RatePosterior  # The rate with its interval
    intervals: SurvivalIntervals
    under_jobs: bool  # Whether it was seen only while jobs ran
    events_E: Bool  # The counted failures (E,)
    loaded: list[str]  # Remarks on busy nodes


def rate_cause(
    observed: records.Observed,
    events_E: Bool,
    row: fits.CauseRow,
    watch: ObservationWindow,
    options: records.FleetOptions,
) -> CauseRate:
    """Return the failure rate of a cause."""
    history = observed.history
    under_jobs = observed.operating is not None and bool(observed.under_jobs_E[events_E].all())
    if row.component == JOB:  # only a job that runs can fail
        under_jobs = history.occupancy is not None
    loaded: list[str] = []
    if observed.operating is not None and not under_jobs and row.component != JOB:
        events_E, loaded = _under_load(observed, observed.operating, events_E, watch)
        under_jobs = bool(loaded)
    intervals = _intervals(observed, events_E, row, watch, options, under_jobs=under_jobs)
    rate = rate_posterior(intervals.failures, intervals.exposure_s, level=options.level)
    return CauseRate(row, rate, intervals, under_jobs, events_E, loaded)


def fit_cause(
    observed: records.Observed,
    observed_rate: CauseRate,
    watch: ObservationWindow,
    options: records.FleetOptions,
) -> records.CauseFit:
    """Return the fit of a cause."""
    row, rate, intervals, under_jobs, events_E, loaded = observed_rate
    history = observed.history
    operating_s = observed.operating.by_node() if observed.operating and under_jobs else None
    lemons = _lemons(observed, events_E, watch, operating_s, options)
    comparison = _compared(intervals.seen, options.level)
    law, remarks = _chosen(intervals, comparison, None if row.component == JOB else lemons)
    if law is not None:
        is_long_in_use = options.repair == "as_new" and not watch.new_s
        law, notes = _scaled_to_rate(law, rate, is_long_in_use=is_long_in_use)
        remarks = [*notes, *remarks]
    repairs = repair_times(history, events_E, watch.end_s, open_is_down=options.open_is_down)
    exposed = _exposure_remarks(observed, events_E, row, under_jobs=under_jobs)
    late_s_E = history.detected_s_E[events_E] - history.start_s_E[events_E]
    delay_s_E = late_s_E[late_s_E > 0.0]
    detection = None
    if delay_s_E.size:
        seen = lifetimes(delay_s_E, np.ones(delay_s_E.size, bool))
        detection = durations(seen, late_s_E.size - delay_s_E.size, options.level)
    # documented action of most events; of a tie the heavier one
    names = history.action.names
    count = np.bincount(history.action.code_E[events_E], minlength=len(names)).tolist()
    order = ("", *ACTIONS)
    actions = sorted(names, key=lambda name: (count[names.index(name)], order.index(name)))
    return records.CauseFit(
        component=row.component,
        cause=row.cause,
        intervals=intervals,
        rate=rate,
        comparison=comparison,
        law=law,
        lemons=lemons,
        repair=durations(repairs.seen, repairs.unrecorded, options.level),
        mean_down_s=repairs.mean_s,
        detection=detection,
        remarks=(*remarks, *(loaded or exposed)),
        under_jobs=under_jobs,
        action=actions[-1],
    )


def _intervals(
    observed: records.Observed,
    events_E: Bool,
    row: fits.CauseRow,
    watch: ObservationWindow,
    options: records.FleetOptions,
    *,
    under_jobs: bool,
) -> SurvivalIntervals:
    """Return the survival intervals of a cause, in operating time where jobs made it visible."""
    history, operating = observed.history, observed.operating
    if row.component == JOB and under_jobs and history.occupancy is not None:
        check_window(history, events_E, watch)
        return SurvivalIntervals(
            seen=None,
            failures=int(np.count_nonzero(events_E)),
            exposure_s=history.occupancy.job_seconds((watch.start_s, watch.end_s)),
        )
    if operating is None or not under_jobs:
        return failure_intervals(
            history, events_E, watch, repair=options.repair, open_is_down=options.open_is_down
        )
    check_window(history, events_E, watch)
    parts = watch.units / observed.nodes
    return operating_intervals(
        history, events_E, operating, units_per_node=parts, repair=options.repair
    )


def _under_load(
    observed: records.Observed, operating: OperatingTime, events_E: Bool, watch: ObservationWindow
) -> tuple[Bool, list[str]]:
    """Return the failures on busy nodes and a remark, where idle nodes hardly fail.

    Otherwise all failures are returned, without a remark. With one rate on busy and idle nodes the
    number on busy ones is binomial, with the share of busy time.
    """
    index_of = {name: index for index, name in enumerate(operating.names)}
    busy_E = np.zeros_like(events_E)
    for event in np.flatnonzero(events_E).tolist():
        node = index_of.get(observed.history.node.at(event))
        time_s = float(observed.history.start_s_E[event])
        busy_E[event] = node is not None and any(
            operating.is_busy(node, time_s - late_s) for late_s in (0.0, fits.LATE_S)
        )
    failures, busy = int(np.count_nonzero(events_E)), int(np.count_nonzero(busy_E))
    share = min(operating.total_s / (observed.nodes * (watch.end_s - watch.start_s)), 1.0)
    if not failures or binomtest(busy, failures, share, "greater").pvalue >= _BY_LOAD_P:
        return events_E, []
    text = (
        f"{busy} of {counted(failures, 'failure')} on busy nodes, which were so for"
        f" {100.0 * share:.3g}% of the time: divided by node-hours under jobs, idle nodes left out"
    )
    return busy_E, [text]


def _exposure_remarks(
    observed: records.Observed, events_E: Bool, row: fits.CauseRow, *, under_jobs: bool
) -> list[str]:
    """Return remarks on the exposure of a cause that accounting reports."""
    if under_jobs:
        whose = "job-hours" if row.component == JOB else "node-hours under jobs"
        return [f"seen only while jobs run: divided by {whose}"]
    is_partly = bool(observed.under_jobs_E[events_E].any())
    if is_partly and observed.operating is not None:
        return ["reported by accounting and by other logs: divided by all node-hours"]
    if is_partly or row.cause in SEEN_UNDER_JOBS:
        text = (
            "seen only while jobs run, but the history has no host lists of jobs: divided by all"
            " node-hours, so that the mean time between failures is too long where nodes idle;"
            " import sacct with NodeList, Start and End"
        )
        return [text]
    return []


def _compared(seen: Lifetimes | None, level: float) -> fits.Comparison | None:
    if seen is None or seen.failures < MIN_EVENTS:
        return None
    return fits.compare_families(seen, level)


def _chosen(
    intervals: SurvivalIntervals, comparison: fits.Comparison | None, lemons: fits.LemonNodes | None
) -> tuple[fits.Fit | None, list[str]]:
    """Return the distribution of a cause, None for its rate alone, and the reason."""
    remarks = _remarks(intervals)
    if lemons is not None and lemons.separable:
        remarks.append(
            f"{counted(lemons.flagged, 'lemon node')}: the distribution is that of the other"
            " nodes, memoryless"
        )
        return None, remarks
    if comparison is None or intervals.seen is None:
        failures = 0 if intervals.seen is None else intervals.seen.failures
        remarks.append(
            f"{counted(failures, 'failure')} of known age, under {MIN_EVENTS}: memoryless by"
            " assumption"
        )
        return None, remarks
    best = comparison.fits[0]
    constant = comparison.fit("exponential")
    if best.family != "exponential" and constant.aic - best.aic < _BEST_AIC:
        remarks.append(f"{best.family} is not better than exponential by AIC")
        return None, remarks
    try:
        remarks.append(fits.fitness(best, intervals.seen).text())
    except InfeasibleError as problem:
        remarks.append(f"not tested: {problem}")
    return (None if best.family == "exponential" else best), remarks


def _scaled_to_rate(
    law: fits.Fit, rate: RatePosterior, *, is_long_in_use: bool
) -> tuple[fits.Fit, list[str]]:
    """Return a distribution scaled to the observed rate, and a remark on its fitted mean.

    In steady state the failure rate is one over the mean lifetime for any shape; the mean of a fit
    to a window shorter than lifetimes is an extrapolation, while the rate was observed. Units of
    known age keep their fitted distribution.
    """
    seen_s = 1.0 / rate.observed_per_s
    text = f"the {law.family} fit has a mean of {significant(law.mean / DAY_S, 4)} d"
    seen = f"{significant(seen_s / DAY_S, 4)} d"
    if is_long_in_use:
        return fits.with_mean(law, seen_s), [f"{text}, scaled to the observed {seen}"]
    return law, [f"{text}; the observed units, at their ages, had one failure in {seen}"]


def _remarks(intervals: SurvivalIntervals) -> list[str]:
    is_mixed = intervals.seen is not None and intervals.seen.mixed is not None
    use = "assumed in steady state" if is_mixed else "used for the rate only"
    rows = (
        (intervals.ageless, "survival interval", f"of unknown age, {use}"),
        (intervals.unplaced, "failure", "without a recorded unit, used for the rate only"),
        (intervals.during_repair, "failure", "of units already down excluded"),
        (intervals.recovery_not_told, "failure", "without a recovery: assumed up again at once"),
    )
    return [f"{counted(count, noun)} {text}" for count, noun, text in rows if count]


def _lemons(
    observed: records.Observed,
    events_E: Bool,
    watch: ObservationWindow,
    operating_s: Mapping[str, float] | None,
    options: records.FleetOptions,
) -> fits.LemonNodes | None:
    """Return the lemon nodes; nodes without failures need no name.

    Of causes under jobs only nodes that ran jobs are compared, by their operating time.
    """
    history = observed.history
    exposure_s = options.node_exposure_s if operating_s is None else operating_s
    nodes = observed.nodes if operating_s is None else sum(s > 0.0 for s in operating_s.values())
    counts = dict.fromkeys((name for name, s in exposure_s.items() if s > 0.0), 0)
    for code in history.node.code_E[events_E].tolist():
        name = history.node.names[code]
        if name and (operating_s is None or name in counts):
            counts[name] = counts.get(name, 0) + 1
    if nodes < 2 or sum(counts.values()) < MIN_EVENTS:
        return None
    names = [*counts, *(f"(node {i} without a failure)" for i in range(nodes - len(counts)))]
    events_U = np.array([*counts.values(), *[0] * (nodes - len(counts))], np.int64)
    whole_s = watch.end_s - watch.start_s
    return fits.find_lemons(
        names,
        events_U,
        np.array([exposure_s.get(name) or whole_s for name in names]),
        ratio=options.lemon_ratio,
        false_discovery=options.false_discovery,
    )


def durations(seen: Lifetimes | None, unrecorded: int, level: float) -> records.Durations | None:
    """Return durations with their distribution, None without durations.

    Args:
        seen: The durations [s].
    """
    if seen is None:
        return None
    comparison = _compared(seen, level)
    best = comparison.fits[0] if comparison is not None else None
    return records.Durations(best=best, seen=seen, unrecorded=unrecorded)
