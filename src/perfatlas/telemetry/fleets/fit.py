"""All that a history says of a fleet: a law of failures and of repairs for each cause, and lemons.

Which law a cause gets: from ten failures of known age on, the family of the smallest AIC, of the
mean that the rate of the log tells; with fewer, or without ages, the exponential one, whose rate
needs no ages. Where lemon nodes are found the law is the exponential one of the other nodes, and
the lemons are told apart: mixing them would look like infant mortality.
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
    Repair,
    Spells,
    Watch,
    failure_spells,
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
_BEST_AIC: Final = 2.0  # by which a law of two parameters must beat the exponential one


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """What the logs do not say.

    Args:
        kinds: Kinds of events that count as failures.
        repair: Whether a failure makes the unit new for its cause.
        open_is_down: Whether an event without a recovery was still down at the end of the watch.
        cascade_s: Failures of other causes within so long after one on the same device are its
            effects [s].
        level: Probability of the intervals.
        lemon_ratio: A lemon fails at over so many times the median rate.
        false_discovery: Expected share of fine nodes among those flagged.
        node_exposure_s: Node to how long it was exposed [s], such as the time it ran jobs
            (`JobRuns.node_seconds`), by which lemons are judged; the whole watch where it is not
            given.
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
    """A law of durations.

    Args:
        best: Fit of the smallest AIC, None where there are too few for a shape.
        seen: The durations [s].
        not_told: Events that tell none.
    """

    best: Fit | None
    seen: Lifetimes
    not_told: int


@dataclass(frozen=True, kw_only=True)
class CauseFit:
    """What is known of one cause.

    Args:
        component: What fails.
        cause: Why.
        spells: The spells it was fitted to.
        rate: Rate of one unit, over all nodes, lemons among them.
        comparison: Families fitted to spells of known age, None where they are too few.
        law: The fit that stands for the cause, None where it is the exponential law of `rate`.
        lemons: Lemon nodes of this cause, None where nodes cannot be judged.
        repair: Time from failure to recovery, None where no log tells any.
        detection: Time from failure to detection, None where no log tells any over 0.
        remarks: Sentences on how far to trust it.
    """

    component: str
    cause: str
    spells: Spells
    rate: RatePosterior
    comparison: Comparison | None
    law: Fit | None
    lemons: Lemons | None
    repair: Durations | None
    detection: Durations | None
    remarks: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return component and cause as one name."""
        return f"{self.component}_{self.cause}"

    @property
    def lemons_apart(self) -> Lemons | None:
        """Return lemon nodes whose rate the law leaves out; a job, which is one, has none."""
        known = self.lemons is not None and self.lemons.are_apart and self.component != JOB
        return self.lemons if known else None

    @property
    def lemon_factor(self) -> float:
        """Return how many times as often as the others lemons fail; 1 where there are none."""
        lemons = self.lemons_apart
        return 1.0 if lemons is None else lemons.lemon_per_s / lemons.others_per_s

    @property
    def without_lemons_per_s(self) -> float:
        """Return the rate of one unit of the other nodes [1/s].

        With the share and factor of the lemons it adds up to `rate`, which is of all nodes.
        """
        share = self.lemons_apart.lemon_share if self.lemons_apart else 0.0
        return self.rate.observed_per_s / (1.0 + share * (self.lemon_factor - 1.0))


@dataclass(frozen=True, kw_only=True)
class FleetFit:
    """What a history says of a fleet.

    Args:
        nodes: Nodes of the fleet.
        watches: Component to when its units were watched.
        causes: One fit per component and cause, the most frequent first.
        repair: Time from failure to recovery of all causes but those of jobs, None where no log
            tells any.
        ranking: The causes beside each other, their rates per node.
        options: What the logs did not say.
        history: The history, effects of other failures marked as such.
        cascades: Failures that were taken for effects of another one.
    """

    nodes: int
    watches: Mapping[str, Watch]
    causes: tuple[CauseFit, ...]
    repair: Durations | None
    ranking: tuple[CauseRow, ...]
    options: FleetOptions
    history: History
    cascades: int


def fit_fleet(
    history: History,
    watches: Mapping[str, Watch],
    nodes: int,
    options: FleetOptions = FleetOptions(),
) -> FleetFit:
    """Return a law for every cause of a history.

    Args:
        history: The history.
        watches: Component to when how many units of it were watched; `job` of one unit for causes
            that stop the job as a whole.
        nodes: Nodes of the fleet.
        options: What the logs do not say.

    Raises:
        InvalidSpecError: A component has no watch, an event lies outside it, nothing failed, or the
            logs name more nodes than there are.

    Limits: Logs that tell the same failures twice (kernel lines and exporter metrics) must not be
        joined: every failure would count double.
    """
    if nodes < 1:
        raise InvalidSpecError(f"nodes = {nodes}; at least 1")
    _check_nodes(history, nodes, options)
    history, cascades = without_cascades(history, options.cascade_s)
    counted_E = history.kind.is_any(options.kinds)
    longest_s = max((watch.end_s - watch.start_s for watch in watches.values()), default=0.0)
    ranking = rank_causes(history, nodes * longest_s, kinds=options.kinds, level=options.level)
    fits = []
    for row in ranking:
        if row.component not in watches:
            raise InvalidSpecError(
                f"{counted(row.events, 'failure')} of component {row.component!r}, and no watch of"
                " it; say how many there are and when they were watched, of:"
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
    """Refuse fewer nodes than there must be: rates would be too high, lemons not to be found."""
    named = {*history.node.text(), *options.node_exposure_s} - {""}
    if len(named) > nodes:
        first = ", ".join(sorted(named)[:3])
        raise InvalidSpecError(
            f"nodes = {nodes}: the logs name {counted(len(named), 'node')} ({first}, ...); say how"
            f" many were watched, {len(named)} or more, or leave events of other machines out of"
            " the history"
        )


def _fit_cause(
    history: History,
    events_E: Bool,
    row: CauseRow,
    watch: Watch,
    nodes: int,
    options: FleetOptions,
) -> CauseFit:
    spells = failure_spells(
        history, events_E, watch, repair=options.repair, open_is_down=options.open_is_down
    )
    rate = rate_posterior(spells.failures, spells.exposure_s, level=options.level)
    lemons = _lemons(history, events_E, watch, nodes, options)
    comparison = _compared(spells.seen, options.level)
    law, remarks = _chosen(spells, comparison, None if row.component == JOB else lemons)
    if law is not None:
        is_long_in_use = options.repair == "as_new" and not watch.new_s
        law, told = _of_the_rate(law, rate, is_long_in_use=is_long_in_use)
        remarks = [*told, *remarks]
    repairs = repair_times(history, events_E, watch.end_s, open_is_down=options.open_is_down)
    return CauseFit(
        component=row.component,
        cause=row.cause,
        spells=spells,
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
    spells: Spells, comparison: Comparison | None, lemons: Lemons | None
) -> tuple[Fit | None, list[str]]:
    """Return the fit that stands for a cause, None for its rate, and why."""
    remarks = _remarks(spells)
    if lemons is not None and lemons.are_apart:
        remarks.append(
            f"{counted(lemons.flagged, 'lemon node')}: the law is that of the other nodes,"
            " memoryless"
        )
        return None, remarks
    if comparison is None or spells.seen is None:
        known = 0 if spells.seen is None else spells.seen.failures
        remarks.append(
            f"{counted(known, 'failure')} of known age, under {FEWEST}: memoryless by assumption"
        )
        return None, remarks
    best = comparison.fits[0]
    constant = comparison.fit("exponential")
    if best.family != "exponential" and constant.aic - best.aic < _BEST_AIC:
        remarks.append(f"{best.family} is no better than exponential by AIC")
        return None, remarks
    try:
        remarks.append(fitness(best, spells.seen).text())
    except InfeasibleError as problem:
        remarks.append(f"not tested: {problem}")
    return (None if best.family == "exponential" else best), remarks


def _of_the_rate(law: Fit, rate: RatePosterior, *, is_long_in_use: bool) -> tuple[Fit, list[str]]:
    """Return a law that fails as often as the log told, and how far its own mean was off.

    A fleet long in use fails at one over the mean of its law, whatever the shape; the mean of a law
    fitted to a watch shorter than lifetimes is an extrapolation, its rate was seen. Units whose age
    was told fail at the rate of their ages, and keep their law.
    """
    seen_s = 1.0 / rate.observed_per_s
    told = f"{law.family} by itself has a mean of {law.mean / DAY_S:.4g} d"
    if is_long_in_use:
        return with_mean(law, seen_s), [f"{told}, brought to {seen_s / DAY_S:.4g} d of the rate"]
    return law, [f"{told}; the units watched, of their ages, had one in {seen_s / DAY_S:.4g} d"]


def _remarks(spells: Spells) -> list[str]:
    remarks = []
    if spells.ageless:
        is_mixed = spells.seen is not None and spells.seen.mixed is not None
        use = "taken as of mixed ages" if is_mixed else "for the rate alone"
        remarks.append(f"{counted(spells.ageless, 'spell')} of unknown age, {use}")
    if spells.unplaced:
        remarks.append(
            f"{counted(spells.unplaced, 'failure')} of a unit not told, for the rate alone"
        )
    if spells.during_repair:
        remarks.append(f"{counted(spells.during_repair, 'failure')} of units already down left out")
    if spells.recovery_not_told:
        told = counted(spells.recovery_not_told, "failure")
        remarks.append(f"{told} without a recovery: for the rate, up again at once")
    return remarks


def _lemons(
    history: History, events_E: Bool, watch: Watch, nodes: int, options: FleetOptions
) -> Lemons | None:
    """Return the lemons among nodes; those that never failed need no name."""
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
    history: History, counted_E: Bool, watches: Mapping[str, Watch], options: FleetOptions
) -> Durations | None:
    """Return the repairs of all causes but those of jobs, whose recovery is a restart."""
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
