"""A slow simulation of a job on a fleet in which every unit and every part is an object of its own.

Written from docs/fleet.md, docs/goodput.md and the docstrings of `fleet.model`, not from the
compiled simulator. It has one checkpoint level, one restart, no planned maintenance and no elastic
operation.
Time is in seconds; a clock of "exposed" time runs only while failures can occur.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfatlas.reliability.fleet.laws import Constant, Exponential, Law, LogNormal, Weibull

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Cause, Job, Strategy

NEVER = math.inf


@dataclass
class Part:
    """A part of a unit: its cause, its failure and its birth on the unit's clock of service."""

    cause: Cause
    due: float
    birth: float


@dataclass
class Unit:
    """A unit with its parts, faults and clock; `away` is the exposed time in which it was off."""

    number: int
    parts: list[Part]
    lemon_of: set[str]
    strikes: dict[str, int] = field(default_factory=dict)
    away: float = 0.0
    off_since: float | None = 0.0
    idle_since: int = 0


def draw(dice: random.Random, law: Law, age: float = 0.0) -> float:
    """Return the age at failure of a part that has reached an age."""
    match law:
        case Constant():
            return float(law.value_s)
        case Exponential():
            return age + dice.expovariate(1.0 / law.mean_s)
        case Weibull():
            hazard = (age / law.scale_s) ** law.shape + dice.expovariate(1.0)
            return float(law.scale_s * hazard ** (1.0 / law.shape))
        case LogNormal():
            return law.median_s * math.exp(law.sigma * dice.gauss(0.0, 1.0))
    raise AssertionError(law)


def residual(dice: random.Random, law: Weibull) -> float:
    """Return the time to the next failure of a part that has been renewed for ever.

    Such a part is met in a life that is longer than others in proportion to its length, at a
    uniform point of it; lives in proportion to their length have a gamma-distributed hazard.
    """
    hazard = dice.gammavariate(1.0 + 1.0 / law.shape, 1.0)
    return float(dice.random() * law.scale_s * hazard ** (1.0 / law.shape))


def replace_by_last(units: list[Unit], unit: Unit) -> None:
    """Remove a unit from a list, in which the last one takes its place."""
    units[units.index(unit)] = units[-1]
    units.pop()


class Replica:
    """One replica."""

    def __init__(self, job: Job, strategy: Strategy, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a simulation
        self.fleet, self.needed, self.horizon = job.fleet, job.units, job.horizon_s
        self.strategy = strategy
        self.spares = strategy.spares.count or 0
        self.warm = strategy.spares.kind != "cold"
        self.now = self.exposed = 0.0
        self.interruptions = self.returns = 0
        self.index, self.done, self.writing = 0, 0.0, 0.0  # segments, work and write of the next
        self.found, self.clean, self.struck_at = NEVER, 0, 0  # of a silent error
        self.spells: list[tuple[float, float]] = []  # end and factor
        self.repairs: list[tuple[float, int, Unit]] = []
        units = [self._unit(number) for number in range(job.units + self.spares)]
        self._choose_lemons(units)
        for unit in units:
            for part in unit.parts:
                part.due, part.birth = self._first(part.cause, unit)
        self.active, self.idle = units[: job.units], units[job.units :]
        for unit in self.active + (self.idle if self.warm else []):
            self._power_up(unit)
        self.bursts = {
            cause.name: self._gap(cause) for cause in self.fleet.causes if cause.units > 1
        }

    def _unit(self, number: int) -> Unit:
        own = [cause for cause in self.fleet.causes if cause.units == 1]
        parts = [Part(cause, 0.0, 0.0) for cause in own for _ in range(round(cause.per_unit))]
        return Unit(number=number, parts=parts, lemon_of=set())

    def _choose_lemons(self, units: list[Unit]) -> None:
        for cause in self.fleet.causes:
            if cause.lemons is not None:
                wanted = cause.lemons.share * len(units)
                whole = int(wanted) + (self.dice.random() < wanted - int(wanted))
                for unit in self.dice.sample(units, whole):
                    unit.lemon_of.add(cause.name)

    def _first(self, cause: Cause, unit: Unit) -> tuple[float, float]:
        if cause.ages == "mixed":
            assert isinstance(cause.lifetime, Weibull)
            return residual(self.dice, cause.lifetime), 0.0
        return self._life(cause, unit, cause.age_s) - cause.age_s, -cause.age_s

    def _life(self, cause: Cause, unit: Unit, age: float = 0.0) -> float:
        if cause.lemons is not None and cause.name in unit.lemon_of:
            return draw(self.dice, cause.lifetime) / cause.lemons.factor
        return draw(self.dice, cause.lifetime, age)

    def _gap(self, cause: Cause) -> float:
        powered = self.needed + self.spares * self.warm
        assert isinstance(cause.lifetime, Exponential)
        rate = cause.per_unit * powered / cause.lifetime.mean_s
        return self.exposed + self.dice.expovariate(rate)

    def _power_up(self, unit: Unit) -> None:
        assert unit.off_since is not None
        unit.away += self.exposed - unit.off_since
        unit.off_since = None

    def _powered(self) -> list[Unit]:
        return self.active + (self.idle if self.warm else [])

    def _next(self) -> tuple[float, Unit | None, Part | str]:
        """Return the exposed time of the next failure, and its part or burst."""
        best: tuple[float, Unit | None, Part | str] = (NEVER, None, "")
        for unit in self._powered():
            for part in unit.parts:
                if part.due + unit.away < best[0]:
                    best = (part.due + unit.away, unit, part)
        for name, due in self.bursts.items():
            if due < best[0]:
                best = (due, None, name)
        return best

    def _pass(self, seconds: float) -> Cause | None:
        """Let exposed time pass up to a failure that stops the job; return its cause."""
        end = min(self.now + seconds, self.horizon)
        while True:
            back = self.repairs[0][0] if self.repairs and self.warm else NEVER
            due, unit, part = self._next()
            step = min(due - self.exposed, end - self.now, max(back - self.now, 0.0))
            self.now += step
            self.exposed += step
            if back <= self.now:
                self._come_back()
            elif self.now >= end:
                return None
            else:
                cause = self._strike(unit, part)
                if cause is not None:
                    return cause
                if self._changed:
                    return None

    def _come_back(self) -> None:
        while self.repairs and self.repairs[0][0] <= self.now:
            _, _, unit = self.repairs.pop(0)
            self.returns += 1
            unit.idle_since = self.returns
            self.idle.append(unit)
            if self.warm:
                self._power_up(unit)

    def _remove(self, unit: Unit, cause: Cause) -> None:
        """Send a unit to repair."""
        if unit in self.active:
            replace_by_last(self.active, unit)
            self.idle = self.idle[-1:] + self.idle[:-1]
        else:
            replace_by_last(self.idle, unit)
        unit.off_since = self.exposed
        names = [repair.name for repair in self.fleet.repairs]
        repair = self.fleet.repairs[names.index(cause.repair) if cause.repair else 0]
        lasts = sum(draw(self.dice, stage.lasts) for stage in repair.stages)
        self.repairs.append((self.now + lasts, unit.number, unit))
        self.repairs.sort(key=lambda row: row[:2])

    def _strike(self, unit: Unit | None, part: Part | str) -> Cause | None:
        """Apply a failure; return its cause if it stops the job."""
        self._come_back()
        if unit is None:
            return self._burst(str(part))
        assert isinstance(part, Part)
        cause = part.cause
        self._renew(unit, part)
        works = unit in self.active
        if cause.effect != "stops" or cause.takes == "nothing":
            if works and cause.effect == "slows":
                assert cause.lasts is not None
                self.spells.append((self.now + draw(self.dice, cause.lasts), cause.slowdown))
                self._changed = True
            elif works and cause.effect == "corrupts" and self.running and self.found == NEVER:
                assert cause.lasts is not None
                self.found = self.now + draw(self.dice, cause.lasts)
                self.clean = self.struck_at = self.index
                self._changed = True
            return cause if works and cause.effect == "stops" else None
        self._remove(unit, cause)
        return cause if works else None

    def _renew(self, unit: Unit, part: Part) -> None:
        cause, clock = part.cause, part.due
        if cause.lemons is not None and cause.name in unit.lemon_of and cause.lemons.strikes:
            seen = unit.strikes[cause.name] = unit.strikes.get(cause.name, 0) + 1
            if seen >= cause.lemons.strikes:
                unit.lemon_of.remove(cause.name)
                for other in unit.parts:
                    if other.cause is cause:
                        other.due = clock + self._life(cause, unit)
        if cause.as_old:
            part.due = part.birth + self._life(cause, unit, clock - part.birth)
        else:
            part.birth, part.due = clock, clock + self._life(cause, unit)

    def _burst(self, name: str) -> Cause | None:
        cause = next(cause for cause in self.fleet.causes if cause.name == name)
        self.bursts[name] = self._gap(cause)
        first = int(self.dice.random() * (self.needed + self.spares * self.warm))
        up = self._powered()
        if first >= len(up):
            return None
        hit = (up[first:] + up[:first])[: cause.units]
        struck = any(unit in self.active for unit in hit)
        for unit in sorted(hit, key=up.index, reverse=True):
            self._remove(unit, cause)
        return cause if struck else None

    def _take_spare(self) -> None:
        order = self.strategy.spares.order
        chosen = self.dice.choice(self.idle)
        if order == "first":
            chosen = min(self.idle, key=lambda unit: unit.number)
        elif order == "longest_idle":
            chosen = min(self.idle, key=lambda unit: (unit.idle_since, unit.number))
        elif order == "last_returned":
            chosen = min(self.idle, key=lambda unit: (-unit.idle_since, unit.number))
        self.idle[self.idle.index(chosen)] = self.idle[0]  # the first spare takes its place
        self.idle.pop(0)
        self.active.append(chosen)
        if not self.warm:
            self._power_up(chosen)

    def run(self) -> tuple[float, int]:
        """Return goodput and interruptions."""
        interval, write = self.strategy.interval_s, self.strategy.levels[0].write_s
        self.running, self._changed = True, False
        while self.now < self.horizon:
            self.spells = [spell for spell in self.spells if spell[0] > self.now]
            factor = max((spell[1] for spell in self.spells), default=1.0)
            working = self.done < interval
            rest = (interval - self.done) * factor if working else write - self.writing
            ends = min((spell[0] for spell in self.spells), default=NEVER)
            before = self.now
            self._changed = False
            cause = self._pass(max(min(rest, ends - self.now, self.found - self.now), 0.0))
            ran = self.now - before
            if working:
                self.done = interval if ran >= rest - 1e-9 else self.done + ran / factor
            else:
                self.writing += ran
            if self.done >= interval and self.writing >= write - 1e-9:
                self.index, self.done, self.writing = self.index + 1, 0.0, 0.0
            if cause is not None:
                self._recover(cause)
            elif self.now >= self.found:
                self._notice()
        return (self.index * interval + self.done) / self.horizon, self.interruptions

    def _notice(self) -> None:
        """Go back to the last checkpoint before a silent error, if it is still kept."""
        kept = self.index - self.struck_at < self.strategy.retained
        self.index = self.clean if kept else 0
        self.found = NEVER
        self._recover(None)

    def _recover(self, cause: Cause | None) -> None:
        """Detect, wait for units and restart, until that works."""
        times = (*self.strategy.restarts[0].phases.values(), self.strategy.levels[0].read_s)
        restart = sum(time for time in times if isinstance(time, float))
        self.running = False
        while self.now < self.horizon:
            self.interruptions += 1
            self.done = self.writing = 0.0
            if self.index <= self.clean:
                self.found = NEVER
            if cause is not None:
                self.now = min(self.now + draw(self.dice, cause.detection), self.horizon)
            self._come_back()
            while len(self.active) < self.needed and self.now < self.horizon:
                if self.idle:
                    self._take_spare()
                else:
                    self.now = min(self.repairs[0][0], self.horizon)
                    self._come_back()
            cause = self._pass_all(restart)
            if cause is None:
                break
        self.running = True

    def _pass_all(self, seconds: float) -> Cause | None:
        """Let a phase pass through events that do not stop the job."""
        end = self.now + seconds
        while self.now < min(end, self.horizon):
            self._changed = False
            cause = self._pass(end - self.now)
            if cause is not None:
                return cause
        return None
