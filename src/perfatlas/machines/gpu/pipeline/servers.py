"""Programs of warpgroups on first-in-first-out servers: their overlap is an outcome."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = Hashable


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a program."""

    event: Event  # What has happened when it ends
    after: tuple[Event, ...] = ()  # Events that it waits for
    # Cycles of every unit that it holds; it holds all of them for the longest
    holds: Mapping[str, float] = field(default_factory=dict)
    # Cycles of units that it uses without queueing for them
    counts: Mapping[str, float] = field(default_factory=dict)
    latency: float = 0.0  # Cycles from the release of the units to the event
    # Whether the program waits for its end; an asynchronous instruction does not
    waits: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """The work of a unit for a step [cycles]."""

    unit: str
    event: Event
    start: float
    end: float

    @property
    def words(self) -> tuple[Any, ...]:
        """Its event: what it works for, and of loops its block and warpgroup."""
        return self.event if isinstance(self.event, tuple) else (self.event,)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarpgroupSchedule:
    """The run of the programs of one tile."""

    cycles: float  # End of the last step
    busy: Mapping[str, float]  # Cycles in which each unit works
    intervals: tuple[Interval, ...] = ()  # When units work for steps that hold them


def run_programs(programs: Sequence[Sequence[Step]]) -> WarpgroupSchedule:
    """Return the schedule of programs that run at the same time.

    Each program issues its steps in order. A unit serves the steps in the order in which they
    arrive, and equal arrivals in the order of the programs.

    Raises:
        ValueError: Programs wait for events that never happen.

    Example:
        >>> from perfatlas.machines.gpu.pipeline import Step, run_programs
        >>> load = Step(event="loaded", holds={"copy": 10.0}, latency=5.0, waits=False)
        >>> mma = Step(event="product", after=("loaded",), holds={"tensor": 20.0})
        >>> run_programs([[load], [mma]]).cycles
        35.0
    """
    happened: dict[Event, float] = {}
    free: dict[str, float] = {}
    busy: dict[str, float] = {}
    intervals: list[Interval] = []
    position, time = [0] * len(programs), [0.0] * len(programs)
    for _ in range(sum(map(len, programs))):
        arrivals = [
            (_arrival(programs[p][position[p]], time[p], happened), p)
            for p in range(len(programs))
            if position[p] < len(programs[p])
        ]
        arrival, p = min(arrivals)
        if arrival == float("inf"):
            raise ValueError("the programs wait for each other")
        step = programs[p][position[p]]
        start = max([arrival, *(free.get(unit, 0.0) for unit in step.holds)])
        end = start + max(step.holds.values(), default=0.0)
        intervals += [
            Interval(unit=unit, event=step.event, start=start, end=start + cycles)
            for unit, cycles in step.holds.items()
        ]
        free.update(dict.fromkeys(step.holds, end))
        for uses in (step.holds, step.counts):
            for unit, cycles in uses.items():
                busy[unit] = busy.get(unit, 0.0) + cycles
        happened[step.event] = end + step.latency
        time[p] = end + step.latency if step.waits else arrival
        position[p] += 1
    cycles = max(happened.values(), default=0.0)
    return WarpgroupSchedule(cycles=cycles, busy=busy, intervals=tuple(intervals))


def _arrival(step: Step, time: float, happened: Mapping[Event, float]) -> float:
    """Return when a step can start; infinity while an event is missing."""
    return max([time, *(happened.get(hashable, float("inf")) for hashable in step.after)])
