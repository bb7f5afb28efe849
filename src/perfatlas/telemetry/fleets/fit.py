"""Fit of a fleet to a history: failure and repair distributions per cause, and lemons.

Distribution of a cause: with at least ten failures of known age, the family of the smallest AIC,
scaled to the mean given by the failure rate; otherwise the exponential distribution, whose rate
needs no ages. With lemon nodes it is the exponential distribution of the other nodes, with separate
lemons, as their mixture would look like infant mortality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted, did_you_mean
from perfatlas.sampling import RatePosterior, rate_posterior
from perfatlas.telemetry.fits import (
    CASCADE_S,
    FALSE_DISCOVERY,
    RATIO,
    CauseRow,
    Lemons,
    compare_families,
    find_lemons,
    fitness,
    rank_causes,
    with_mean,
    without_cascades,
)
from perfatlas.telemetry.history import (
    FAILURE,
    JOB,
    ObservationWindow,
    Repair,
    SurvivalIntervals,
    failure_intervals,
    lifetimes,
    repair_times,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.telemetry.fits import Comparison, Fit
    from perfatlas.telemetry.history import History, Lifetimes

    Bool = NDArray[np.bool_]

DAY_S: Final = 86400.0
FEWEST: Final = 10  # failures or repairs below which no shape is fitted
_BEST_AIC: Final = 2.0  # AIC margin by which two parameters must beat the exponential distribution


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Assumptions that the logs do not contain.

    Args:
        kinds: Kinds of events that count as failures.
        repair: Whether a repaired unit is as good as new for its cause.
        open_is_down: Whether an event without a recovery was still down at the end of the window.
        cascade_s: Failures of other causes within this time after one on the same device are its
            effects [s].
        level: Probability of the intervals.
        lemon_ratio: A lemon fails at more than this multiple of the median rate.
        false_discovery: Allowed false discovery rate among flagged nodes.
        node_exposure_s: Exposure of each node [s], such as the time it ran jobs
            (`JobRuns.node_seconds`), used to find lemons; by default the whole window.
    """

    kinds: Sequence[str] = (FAILURE,)
    repair: Repair = "as_new"
    open_is_down: bool = False
    cascade_s: float = CASCADE_S
    level: float = 0.95
    lemon_ratio: float = RATIO
    false_discovery: float = FALSE_DISCOVERY
    node_exposure_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Durations:
    """A distribution of durations.

    Args:
        best: Fit with the smallest AIC, None where there are too few durations.
        seen: The durations [s].
        not_told: Events without a recorded duration.
    """

    best: Fit | None
    seen: Lifetimes
    not_told: int


@dataclass(frozen=True, kw_only=True)
class CauseFit:
    """Fit of one cause.

    Args:
        component: Failed component.
        cause: Cause.
        intervals: Survival intervals it was fitted to.
        rate: Rate per unit over all nodes, including lemons.
        comparison: Families fitted to intervals of known age, None where there are too few.
        law: Distribution of the cause, None for the exponential distribution of `rate`.
        lemons: Lemon nodes of this cause, None where they cannot be determined.
        repair: Time from failure to recovery, None where not recorded.
        detection: Time from failure to detection, None where none above 0 is recorded.
        remarks: Remarks on its reliability.
    """

    component: str
    cause: str
    intervals: SurvivalIntervals
    rate: RatePosterior
    comparison: Comparison | None
    law: Fit | None
    lemons: Lemons | None
    repair: Durations | None
    detection: Durations | None
    remarks: tuple[str, ...]

    @property
    def name(self) -> str:
        """Component and cause as one name."""
        return f"{self.component}_{self.cause}"

    @property
    def lemons_apart(self) -> Lemons | None:
        """Lemon nodes excluded from the distribution; None for causes of the job."""
        known = self.lemons is not None and self.lemons.are_apart and self.component != JOB
        return self.lemons if known else None

    @property
    def lemon_factor(self) -> float:
        """Failure rate of lemons relative to the other nodes; 1 for none."""
        lemons = self.lemons_apart
        return 1.0 if lemons is None else lemons.lemon_per_s / lemons.others_per_s

    @property
    def without_lemons_per_s(self) -> float:
        """Rate per unit of the other nodes [1/s].

        Together with the share and factor of the lemons it gives `rate` over all nodes.
        """
        share = self.lemons_apart.lemon_share if self.lemons_apart else 0.0
        return self.rate.observed_per_s / (1.0 + share * (self.lemon_factor - 1.0))


@dataclass(frozen=True, kw_only=True)
class FleetFit:
    """A fleet fitted to a history.

    Args:
        nodes: Nodes of the fleet.
        watches: Component to when its units were watched.
        causes: One fit per component and cause, the most frequent first.
        repair: Time from failure to recovery of all causes except those of jobs, None where not
            recorded.
        ranking: Ranking of the causes by rate per node.
        options: Assumptions that the logs do not contain.
        history: The history, with secondary failures marked as effects.
        cascades: Number of failures marked as effects.
    """

    nodes: int
    watches: Mapping[str, ObservationWindow]
    causes: tuple[CauseFit, ...]
    repair: Durations | None
    ranking: tuple[CauseRow, ...]
    options: FleetOptions
    history: History
    cascades: int


def fit_fleet(
    history: History,
    watches: Mapping[str, ObservationWindow],
    nodes: int,
    options: FleetOptions = FleetOptions(),
) -> FleetFit:
    """Return the fleet fitted to a history.

    Args:
        history: The history.
        watches: Observation window and number of units by component; `job` has one unit, for causes
            that stop the whole job.
        nodes: Nodes of the fleet.
        options: Assumptions that the logs do not contain.

    Raises:
        InvalidSpecError: A component has no observation window, an event lies outside it, there are
            no failures, or the logs name more nodes than `nodes`.

    Limits: logs of the same failures (kernel lines and exporter metrics) must not be joined, as
        every failure would count twice.
    """
    if nodes < 1:
        raise InvalidSpecError(f"nodes = {nodes}: expected 1 or more")
    _check_nodes(history, nodes, options)
    history, cascades = without_cascades(history, options.cascade_s)
    counted_E = history.kind.is_any(options.kinds)
    longest_s = max((watch.end_s - watch.start_s for watch in watches.values()), default=0.0)
    ranking = rank_causes(history, nodes * longest_s, kinds=options.kinds, level=options.level)
    fits = []
    for row in ranking:
        if row.component not in watches:
            raise InvalidSpecError(
                f"{counted(row.events, 'failure')} of component {row.component!r}, which has no"
                " observation window; expected one of:"
                f" {', '.join(watches) or 'none'}{did_you_mean(row.component, watches)}"
            )
        rows_E = history.component.is_any([row.component]) & history.cause.is_any([row.cause])
        fits.append(
            _fit_cause(history, rows_E & counted_E, row, watches[row.component], nodes, options)
        )
    return FleetFit(
        nodes=nodes,
        watches=watches,
        causes=tuple(fits),
        repair=_any_repair(history, counted_E, watches, options),
        ranking=ranking,
        options=options,
        history=history,
        cascades=cascades,
    )


def _check_nodes(history: History, nodes: int, options: FleetOptions) -> None:
    """Raise for fewer nodes than named in the logs: rates would be too high."""
    named = {*history.node.text(), *options.node_exposure_s} - {""}
    if len(named) > nodes:
        first = ", ".join(sorted(named)[:3])
        raise InvalidSpecError(
            f"nodes = {nodes}: the logs name {counted(len(named), 'node')} ({first}, ...); set it"
            f" to {len(named)} or more, or remove events of other machines from the history"
        )


def _fit_cause(
    history: History,
    events_E: Bool,
    row: CauseRow,
    watch: ObservationWindow,
    nodes: int,
    options: FleetOptions,
) -> CauseFit:
    intervals = failure_intervals(
        history, events_E, watch, repair=options.repair, open_is_down=options.open_is_down
    )
    rate = rate_posterior(intervals.failures, intervals.exposure_s, level=options.level)
    lemons = _lemons(history, events_E, watch, nodes, options)
    comparison = _compared(intervals.seen, options.level)
    law, remarks = _chosen(intervals, comparison, None if row.component == JOB else lemons)
    if law is not None:
        is_long_in_use = options.repair == "as_new" and not watch.new_s
        law, told = _of_the_rate(law, rate, is_long_in_use=is_long_in_use)
        remarks = [*told, *remarks]
    repairs = repair_times(history, events_E, watch.end_s, open_is_down=options.open_is_down)
    return CauseFit(
        component=row.component,
        cause=row.cause,
        intervals=intervals,
        rate=rate,
        comparison=comparison,
        law=law,
        lemons=lemons,
        repair=_durations(repairs.seen, repairs.not_told, options.level),
        detection=_detection(history, events_E, options.level),
        remarks=tuple(remarks),
    )


def _compared(seen: Lifetimes | None, level: float) -> Comparison | None:
    if seen is None or seen.failures < FEWEST:
        return None
    return compare_families(seen, level)


def _chosen(
    intervals: SurvivalIntervals, comparison: Comparison | None, lemons: Lemons | None
) -> tuple[Fit | None, list[str]]:
    """Return the distribution of a cause, None for its rate alone, and the reason."""
    remarks = _remarks(intervals)
    if lemons is not None and lemons.are_apart:
        remarks.append(
            f"{counted(lemons.flagged, 'lemon node')}: the distribution is that of the other"
            " nodes, memoryless"
        )
        return None, remarks
    if comparison is None or intervals.seen is None:
        known = 0 if intervals.seen is None else intervals.seen.failures
        remarks.append(
            f"{counted(known, 'failure')} of known age, under {FEWEST}: memoryless by assumption"
        )
        return None, remarks
    best = comparison.fits[0]
    constant = comparison.fit("exponential")
    if best.family != "exponential" and constant.aic - best.aic < _BEST_AIC:
        remarks.append(f"{best.family} is not better than exponential by AIC")
        return None, remarks
    try:
        remarks.append(fitness(best, intervals.seen).text())
    except InfeasibleError as problem:
        remarks.append(f"not tested: {problem}")
    return (None if best.family == "exponential" else best), remarks


def _of_the_rate(law: Fit, rate: RatePosterior, *, is_long_in_use: bool) -> tuple[Fit, list[str]]:
    """Return a distribution scaled to the observed rate, and a remark on its fitted mean.

    In steady state the failure rate is one over the mean lifetime for any shape; the mean of a fit
    to a window shorter than lifetimes is an extrapolation, while the rate was observed. Units of
    known age keep their fitted distribution.
    """
    seen_s = 1.0 / rate.observed_per_s
    told = f"the {law.family} fit has a mean of {law.mean / DAY_S:.4g} d"
    if is_long_in_use:
        return with_mean(law, seen_s), [f"{told}, scaled to the observed {seen_s / DAY_S:.4g} d"]
    return law, [
        f"{told}; the observed units, at their ages, had one failure in {seen_s / DAY_S:.4g} d"
    ]


def _remarks(intervals: SurvivalIntervals) -> list[str]:
    remarks = []
    if intervals.ageless:
        is_mixed = intervals.seen is not None and intervals.seen.mixed is not None
        use = "assumed in steady state" if is_mixed else "used for the rate only"
        remarks.append(f"{counted(intervals.ageless, 'survival interval')} of unknown age, {use}")
    if intervals.unplaced:
        remarks.append(
            f"{counted(intervals.unplaced, 'failure')} without a recorded unit, used for the rate"
            " only"
        )
    if intervals.during_repair:
        remarks.append(
            f"{counted(intervals.during_repair, 'failure')} of units already down excluded"
        )
    if intervals.recovery_not_told:
        told = counted(intervals.recovery_not_told, "failure")
        remarks.append(f"{told} without a recovery: assumed up again at once")
    return remarks


def _lemons(
    history: History, events_E: Bool, watch: ObservationWindow, nodes: int, options: FleetOptions
) -> Lemons | None:
    """Return the lemon nodes; nodes without failures need no name."""
    counts = dict.fromkeys((n for n, s in options.node_exposure_s.items() if s > 0.0), 0)
    for code in history.node.code_E[events_E].tolist():
        name = history.node.names[code]
        if name:
            counts[name] = counts.get(name, 0) + 1
    if nodes < 2 or sum(counts.values()) < FEWEST:
        return None
    names = [*counts, *(f"(node {i} without a failure)" for i in range(nodes - len(counts)))]
    events_U = np.array([*counts.values(), *[0] * (nodes - len(counts))], np.int64)
    whole_s = watch.end_s - watch.start_s
    return find_lemons(
        names,
        events_U,
        np.array([options.node_exposure_s.get(name) or whole_s for name in names]),
        ratio=options.lemon_ratio,
        false_discovery=options.false_discovery,
    )


def _durations(seen: Lifetimes | None, not_told: int, level: float) -> Durations | None:
    if seen is None:
        return None
    comparison = _compared(seen, level)
    best = comparison.fits[0] if comparison is not None else None
    return Durations(best=best, seen=seen, not_told=not_told)


def _any_repair(
    history: History,
    counted_E: Bool,
    watches: Mapping[str, ObservationWindow],
    options: FleetOptions,
) -> Durations | None:
    """Return the repairs of all causes except those of jobs, whose recovery is a restart."""
    events_E = counted_E & ~history.component.is_any([JOB])
    end_s = max(watch.end_s for watch in watches.values())
    repairs = repair_times(history, events_E, end_s, open_is_down=options.open_is_down)
    return _durations(repairs.seen, repairs.not_told, options.level)


def _detection(history: History, events_E: Bool, level: float) -> Durations | None:
    length_E = history.detected_s_E[events_E] - history.start_s_E[events_E]
    told_E = length_E > 0.0
    if not told_E.any():
        return None
    seen = lifetimes(length_E[told_E], np.ones(int(told_E.sum()), bool))
    return _durations(seen, int(np.count_nonzero(~told_E)), level)
