"""Fit of a fleet to a history: failure and repair distributions per cause, and lemons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, counted, did_you_mean
from perfatlas.reliability.telemetry.fits import (
    CauseRow,
    LogAgreement,
    match_logs,
    of_accounting,
    rank_causes,
    without_cascades,
)
from perfatlas.reliability.telemetry.fleets import records
from perfatlas.reliability.telemetry.fleets.cause import CauseRate, durations, fit_cause, rate_cause
from perfatlas.reliability.telemetry.history import JOB, PROCESS, ObservationWindow, repair_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history import History, OperatingTime

    Bool = NDArray[np.bool_]


_DEFAULT_OPTIONS: Final = records.FleetOptions()


@dataclass(frozen=True, kw_only=True)
class FleetFit:
    """A fleet fitted to a history."""

    nodes: int
    watches: Mapping[str, ObservationWindow]  # Component to when its units were watched
    causes: tuple[records.CauseFit, ...]  # One fit per component and cause, the most frequent first
    # Time from failure to recovery of all causes except those of jobs, None where not recorded
    repair: records.Durations | None
    ranking: tuple[CauseRow, ...]  # Ranking of the causes by frequency
    options: records.FleetOptions  # Assumptions that the logs do not contain
    history: History  # The history, with secondary failures marked as effects
    cascades: int  # Number of failures marked as effects
    agreement: LogAgreement | None  # How far several logs agree, None for one log
    operating: OperatingTime | None  # Operating time of each node, None where no log has it

    @property
    def utilization(self) -> float | None:
        """Share of the observed node-hours in which jobs ran, None where unknown."""
        if self.operating is None:
            return None
        watch = max(self.watches.values(), key=lambda watch: watch.end_s - watch.start_s)
        return self.operating.total_s / (self.nodes * (watch.end_s - watch.start_s))


def fit_fleet(
    history: History,
    watches: Mapping[str, ObservationWindow],
    nodes: int,
    options: records.FleetOptions = _DEFAULT_OPTIONS,
) -> FleetFit:
    """Return the fleet fitted to a history.

    Args:
        watches: Observation window and number of units by component; `job` has one unit, for causes
            that stop the whole job.

    Raises:
        InvalidSpecError: A component has no observation window, an event lies outside it, there are
            no failures, or the logs name more nodes than `nodes`.

    Limits: logs of the same failures (kernel lines and exporter metrics) must not be joined, as
        every failure would count twice.
    """
    seen = _seen(history, watches, nodes, options)
    fits = [
        fit_cause(seen.observed, rate, watches[rate.row.component], options)
        for rate in _rates(seen, watches, options)
    ]
    # those of all causes except the ones that a restart of the program ends
    history = seen.observed.history
    of_nodes_E = ~history.component.is_any([JOB]) & ~history.action.is_any([PROCESS])
    end_s = max(watch.end_s for watch in watches.values())
    repairs = repair_times(
        history, seen.counted_E & of_nodes_E, end_s, open_is_down=options.open_is_down
    )
    return FleetFit(
        nodes=nodes,
        watches=watches,
        causes=tuple(fits),
        repair=durations(repairs.seen, repairs.unrecorded, options.level),
        ranking=seen.ranking,
        options=options,
        history=history,
        cascades=seen.cascades,
        agreement=seen.agreement,
        operating=seen.observed.operating,
    )


def fleet_rates(
    history: History,
    watches: Mapping[str, ObservationWindow],
    nodes: int,
    options: records.FleetOptions = _DEFAULT_OPTIONS,
) -> tuple[CauseRate, ...]:
    """Return the failure rates of `fit_fleet`, without distributions, lemons or repairs.

    Args:
        watches: Observation window and number of units by component.
    """
    return tuple(_rates(_seen(history, watches, nodes, options), watches, options))


class _Seen(NamedTuple):
    """A history prepared for its fit: secondary failures and records of one failure are marked."""

    observed: records.Observed
    counted_E: Bool
    ranking: tuple[CauseRow, ...]
    cascades: int
    agreement: LogAgreement | None


def _seen(
    history: History,
    watches: Mapping[str, ObservationWindow],
    nodes: int,
    options: records.FleetOptions,
) -> _Seen:
    if nodes < 1:
        raise InvalidSpecError(f"nodes = {nodes}: expected 1 or more")
    named = {*history.node.text(), *options.node_exposure_s} - {""}
    if len(named) > nodes:
        first = ", ".join(sorted(named)[:3])
        raise InvalidSpecError(
            f"nodes = {nodes}: the logs name {counted(len(named), 'node')} ({first}, ...); set it"
            f" to {len(named)} or more, or remove events of other machines from the history"
        )
    history, agreement = match_logs(history, options.match_s)
    history, cascades = without_cascades(history, options.cascade_s)
    lengths = [
        (watch.end_s - watch.start_s, watch.start_s, watch.end_s) for watch in watches.values()
    ]
    _, start_s, end_s = max(lengths, default=(0.0, 0.0, 0.0))
    operating = None
    if history.occupancy is not None:
        operating = history.occupancy.operating_time((start_s, end_s))
        if not operating.total_s > 0.0:
            operating = None
    if operating is not None and len(operating.names) > nodes:
        raise InvalidSpecError(
            f"nodes = {nodes}: jobs ran on {counted(len(operating.names), 'node')}; set it to"
            f" {len(operating.names)} or more, or import only jobs of this cluster"
        )
    observed = records.Observed(
        history=history,
        nodes=nodes,
        operating=operating,
        under_jobs_E=of_accounting(history),
    )
    ranking = rank_causes(history, kinds=options.kinds, level=options.level)
    return _Seen(observed, history.kind.is_any(options.kinds), ranking, cascades, agreement)


def _rates(
    seen: _Seen, watches: Mapping[str, ObservationWindow], options: records.FleetOptions
) -> Iterator[CauseRate]:
    """Yield the failure rate of each cause, the most frequent first."""
    history = seen.observed.history
    for row in seen.ranking:
        if row.component not in watches:
            raise InvalidSpecError(
                f"{counted(row.events, 'failure')} of component {row.component!r}, which has no"
                " observation window; expected one of:"
                f" {', '.join(watches) or 'none'}{did_you_mean(row.component, watches)}"
            )
        rows_E = history.component.is_any([row.component]) & history.cause.is_any([row.cause])
        events_E = rows_E & seen.counted_E
        yield rate_cause(seen.observed, events_E, row, watches[row.component], options)
