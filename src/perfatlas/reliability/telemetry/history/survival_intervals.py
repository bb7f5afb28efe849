"""Survival intervals and repair times of a history.

Each cause has a separate clock in each unit: a failure of another cause does not reset it. After a
failure the clock of its cause restarts at 0 (as good as new, a part was replaced) or continues (as
bad as old, a reset). Where a unit's age at the start of the window is unknown, its first interval
has an unknown age. With repair as new such units are of mixed ages (steady state), and their first
intervals also determine the shape; with repair as old they count only for rates.

Shape legend: E events, L lifetimes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.reliability.telemetry.history.history import NODE_STATE, NOTICE, PROCESS
from perfatlas.reliability.telemetry.history.lifetime_columns import Lifetimes, lifetimes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history.history import History
    from perfatlas.reliability.telemetry.history.occupancy import OperatingTime

    Bool = NDArray[np.bool_]
    Float = NDArray[np.float64]

RepairModel = Literal["as_new", "as_old"]


class ObservationWindow(NamedTuple):
    """Observation window of a number of units."""

    start_s: float  # Start [s since 1970-01-01 UTC]
    end_s: float  # End [s]
    units: int  # Number of units, including those without failures
    new_s: Mapping[str, float] = {}  # Service start by unit [s], for units of known age


@dataclass(frozen=True, kw_only=True)
class SurvivalIntervals:
    """Survival intervals of one cause in the units of a component."""

    # Intervals of known age [s], and those of units of mixed ages; None where no age is known
    seen: Lifetimes | None
    failures: int  # Failures of known or unknown age
    exposure_s: float  # Total time units were observed and up [s]
    ageless: int = 0  # Intervals of unknown age
    unplaced: int = 0  # Failures without a recorded unit; they count only for the rate
    during_repair: int = 0  # Excluded failures of units still down from the previous one
    # Failures without a recorded recovery; the next interval starts at once
    recovery_not_told: int = 0


def failure_intervals(
    history: History,
    events_E: Bool,
    watch: ObservationWindow,
    *,
    repair: RepairModel = "as_new",
    open_is_down: bool = False,
) -> SurvivalIntervals:
    """Return the survival intervals between the failures of one cause in an observation window.

    Args:
        events_E: Which of its events are failures of the cause (E,).
        repair: Whether a repaired unit is as good as new for this cause.
        open_is_down: Whether a unit without a recovery stayed down to the end; otherwise only a
            node in a state without an end did, and others are assumed up at once.

    Raises:
        InvalidSpecError: The window is empty, an event lies outside it, a service start is after
            the window or after a failure, or more units failed than exist.
    """
    if not (watch.end_s > watch.start_s and watch.units > 0):
        raise InvalidSpecError(
            f"the observation window of {counted(watch.units, 'unit')} from {watch.start_s:.0f} to"
            f" {watch.end_s:.0f} s is empty"
        )
    first = history.component.at(int(np.flatnonzero(events_E)[0])) if events_E.any() else ""
    check_window(history, events_E, watch)
    until_s_E = _down_until(history, watch.end_s, open_is_down=open_is_down)
    by_unit: dict[str, list[tuple[float, float]]] = {}
    for event in np.flatnonzero(events_E).tolist():
        times = (float(history.start_s_E[event]), float(until_s_E[event]))
        by_unit.setdefault(history.unit(event), []).append(times)
    unplaced = len(by_unit.pop("", ()))
    names = set(by_unit) | set(watch.new_s)
    if len(names) > watch.units:
        raise InvalidSpecError(
            f"{counted(len(names), 'unit')} of component {first!r} are named, but {watch.units}"
            " observed: set their number, including units without failures, with --units"
            f" {first}={len(names)} or more"
        )
    cut = _Cut(watch=watch, repair=repair)
    for unit in sorted(names):
        cut.add(unit, watch.new_s.get(unit), by_unit.get(unit, []))
    cut.never(watch.units - len(names))
    return SurvivalIntervals(
        seen=cut.seen(are_mixed=repair == "as_new" and not unplaced and first != "job"),
        failures=cut.failures + unplaced,
        exposure_s=cut.up_s + (watch.units - len(names)) * (watch.end_s - watch.start_s),
        ageless=cut.ageless,
        unplaced=unplaced,
        during_repair=cut.during_repair,
        recovery_not_told=cut.recovery_not_told,
    )


def operating_intervals(
    history: History,
    events_E: Bool,
    operating: OperatingTime,
    *,
    units_per_node: float = 1.0,
    repair: RepairModel = "as_new",
) -> SurvivalIntervals:
    """Return the survival intervals between failures that were observed because jobs ran.

    Ages and exposure are operating time: the time in which the node of a unit ran jobs. A failure
    on an idle node has no record, and a node without a job has no exposure.

    Args:
        events_E: Which of its events are failures of the cause (E,).
        operating: Operating time of each node in the observation window.
        repair: Whether a repaired unit is as good as new for this cause.

    Limits: ages at the first run are unknown, also where the start of service is known.
    """
    index_of = {name: index for index, name in enumerate(operating.names)}
    by_unit: dict[str, list[tuple[float, float]]] = {}
    node_of: dict[str, int] = {}
    unplaced = 0
    for event in np.flatnonzero(events_E).tolist():
        node = index_of.get(history.node.at(event))
        if node is None or not operating.seconds_N[node] > 0.0:
            unplaced += 1
            continue
        unit = history.unit(event)
        node_of[unit] = node
        age_s = operating.at(node, float(history.start_s_E[event]))
        by_unit.setdefault(unit, []).append((age_s, age_s))
    cut = _Cut(watch=ObservationWindow(0.0, 1.0, 1), repair=repair)
    idle_s = operating.seconds_N.copy()
    for unit, events in by_unit.items():
        seconds = float(operating.seconds_N[node_of[unit]])
        cut.watch = ObservationWindow(0.0, seconds, 1)
        cut.add(unit, None, events)
        idle_s[node_of[unit]] = 0.0
    for seconds in idle_s[idle_s > 0.0].tolist():
        cut.watch = ObservationWindow(0.0, seconds, 1)
        cut.never(max(1, round(units_per_node)))
    return SurvivalIntervals(
        seen=cut.seen(are_mixed=repair == "as_new" and not unplaced),
        failures=cut.failures + unplaced,
        exposure_s=operating.total_s * units_per_node,
        ageless=cut.ageless,
        unplaced=unplaced,
        during_repair=cut.during_repair,
    )


def check_window(history: History, events_E: Bool, watch: ObservationWindow) -> None:
    """Raise for an event outside an observation window.

    Raises:
        InvalidSpecError: An event lies outside it.
    """
    start_s_E = history.start_s_E
    outside_E = events_E & ~((start_s_E >= watch.start_s) & (start_s_E <= watch.end_s))
    if outside_E.any():
        event = int(np.argmax(outside_E))
        raise InvalidSpecError(
            f"{history.place(event)}: the event at {start_s_E[event]:.0f} s lies outside the"
            f" observation window from {watch.start_s:.0f} to {watch.end_s:.0f} s"
        )


def lasting_states(history: History) -> Bool:
    """Return which events are states of a node, which last until a later one is recorded (E,).

    Notices about nodes, and events that a restart of the program ends, happen at a moment.
    """
    at_once_E = history.kind.is_any([NOTICE]) | history.action.is_any([PROCESS])
    return history.component.is_any([NODE_STATE]) & ~at_once_E


def _down_until(history: History, end_s: float, *, open_is_down: bool) -> Float:
    """Return until when each event keeps its unit down [s] (E,), NaN where unknown.

    A node in a state without an end is down until its next state, or to the end of the window.
    """
    open_E = np.isnan(history.recovered_s_E)
    if open_is_down:
        return np.where(open_E, end_s, history.recovered_s_E)
    until_s_E = history.recovered_s_E.copy()
    states = np.flatnonzero(lasting_states(history))
    states = states[np.argsort(history.node.code_E[states], kind="stable")]  # by node, in time
    next_s = np.full(states.size, end_s)
    same = np.diff(history.node.code_E[states]) == 0
    next_s[:-1][same] = np.minimum(history.start_s_E[states[1:]][same], end_s)
    until_s_E[states] = np.where(open_E[states], next_s, until_s_E[states])
    return until_s_E


@dataclass(kw_only=True)
class _Cut:
    """Builder of survival intervals."""

    watch: ObservationWindow
    repair: RepairModel
    entry_s: list[float] = field(default_factory=list)
    exit_s: list[float] = field(default_factory=list)
    failed: list[bool] = field(default_factory=list)
    mixed_s: list[float] = field(default_factory=list)
    mixed_failed: list[bool] = field(default_factory=list)
    failures: int = 0
    ageless: int = 0
    during_repair: int = 0
    recovery_not_told: int = 0
    up_s: float = 0.0

    def add(self, unit: str, new_s: float | None, events: list[tuple[float, float]]) -> None:
        """Split the observation window of a unit at its failures."""
        if new_s is not None and new_s >= self.watch.end_s:
            raise InvalidSpecError(
                f"{unit} starts service at {new_s:.0f} s, after the end of the window at"
                f" {self.watch.end_s:.0f} s"
            )
        if new_s is not None and events and events[0][0] < new_s:
            raise InvalidSpecError(
                f"{unit} failed at {events[0][0]:.0f} s, before its service start at {new_s:.0f}"
                " s: set the start of the first unit of this name, or remove the event"
            )
        up_s = self.watch.start_s if new_s is None else max(self.watch.start_s, new_s)
        zero_s, before = new_s, False
        for start_s, recovered_s in events:
            if start_s < up_s or (start_s == up_s and before):
                self.during_repair += 1
                up_s = max(up_s, start_s if math.isnan(recovered_s) else recovered_s)
                continue
            self.failures, before = self.failures + 1, True
            self._spell(zero_s, up_s, start_s, failed=True)
            if math.isnan(recovered_s):
                self.recovery_not_told += 1
                recovered_s = start_s  # noqa: PLW2901
            up_s = max(recovered_s, start_s)
            if self.repair == "as_new":
                zero_s = up_s
        if up_s < self.watch.end_s:
            self._spell(zero_s, up_s, self.watch.end_s, failed=False)

    def never(self, units: int) -> None:
        """Add units of unknown age without failures."""
        self.ageless += units
        self.mixed_s += [self.watch.end_s - self.watch.start_s] * units
        self.mixed_failed += [False] * units

    def seen(self, *, are_mixed: bool) -> Lifetimes | None:
        """Return the intervals of known age and those of mixed ages.

        Only those of known age are used where a failure has no recorded unit, as units without
        failures are then uncertain; where repair is as old, as there is no steady state of ages;
        and for jobs, which start new within the window.
        """
        if not self.exit_s:
            return None
        unmixed = lifetimes(self.exit_s, np.array(self.failed, bool), self.entry_s)
        if not (are_mixed and self.mixed_s):
            return unmixed
        return replace(unmixed, mixed=lifetimes(self.mixed_s, np.array(self.mixed_failed, bool)))

    def _spell(self, zero_s: float | None, up_s: float, end_s: float, *, failed: bool) -> None:
        self.up_s += max(end_s - up_s, 0.0)
        if zero_s is None or end_s <= up_s:
            self.ageless += 1
            if end_s > up_s:
                self.mixed_s.append(end_s - up_s)
                self.mixed_failed.append(failed)
            return
        self.entry_s.append(up_s - zero_s)
        self.exit_s.append(end_s - zero_s)
        self.failed.append(failed)


class Repairs(NamedTuple):
    """Durations of events."""

    # Times from the event to recovery [s], censored where not recovered; None where no recovery is
    # recorded
    seen: Lifetimes | None
    unrecorded: int  # Excluded events, of unknown recovery
    # Observed time down per event [s], with that of events still down, None for none
    mean_s: float | None = None


def repair_times(
    history: History, events_E: Bool, end_s: float, *, open_is_down: bool = False
) -> Repairs:
    """Return the durations of events until recovery.

    Args:
        events_E: Selected events (E,).
        end_s: End of the window [s since 1970-01-01 UTC].
        open_is_down: Whether an event without a recovery was still down at the end; true for logs
            with every recovery, such as health events that are cleared. Node states always are.

    Limits: events of zero duration are excluded, as a distribution of durations cannot include
        them.
    """
    recorded_E = np.isfinite(history.recovered_s_E[events_E])
    end_E = _down_until(history, end_s, open_is_down=open_is_down)[events_E]
    length_E = end_E - history.start_s_E[events_E]
    timed_E = np.isfinite(length_E) & (length_E > 0.0)
    unrecorded = int(np.count_nonzero(~timed_E))
    mean_s = float(length_E[timed_E].mean()) if timed_E.any() else None
    if not (timed_E & recorded_E).any():
        return Repairs(None, unrecorded, mean_s)
    return Repairs(lifetimes(length_E[timed_E], recorded_E[timed_E]), unrecorded, mean_s)
