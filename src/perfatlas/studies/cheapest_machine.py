"""The cheapest machine that meets limits: fields of a device, solved by the cost of its chip.

Shape legend: N machines, F unknown fields, L limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.cost import chip_cost
from perfatlas.hardware import FIELDS, field_values, with_values
from perfatlas.quantities import InfeasibleError, InvalidSpecError, repr_for_error
from perfatlas.studies.bisection import bisected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.cost import ChipCost
    from perfatlas.hardware import System
    from perfatlas.studies.scaling import ScaledScenario

    FloatArray = NDArray[np.float64]

BANDWIDTH: Final = "device.memory.bandwidth"
SECOND: Final = "device.second_memory."
SM_COUNT: Final = "device.sm_count"
DIES: Final = "device.dies"  # each number of them is a search of its own
# fields whose chip has a cost, and that estimates read
EVERY: Final = (BANDWIDTH, "device.memory.capacity", "device.l2", SM_COUNT)
SOLVED: Final = (*EVERY, f"{SECOND}capacity", f"{SECOND}bandwidth", DIES)
ALL_FIELDS: Final = "device.*"  # those of `EVERY`
MAX_DIES: Final = 16
SPAN: Final = 4.0  # of a field without a range: a quarter to four times that of the base
GRID: Final = {0: 1, 1: 33, 2: 17, 3: 9, 4: 6}  # values of each field, by their number
ZOOMS: Final = 5  # finer grids around the best machine
FINER: Final = 3  # values of each field of them
REL_TOL: Final = 1e-6  # relative: of a solved value
LESS: Final = 0.99  # of a value, which shows what holds it
EDGE: Final = 1e-5  # relative: of a value at the end of its range
AREA: Final = "die_mm2"
MEMORY: Final = "memory"
RANGE: Final = "range"
COST: Final = "cost"


class Unknown(NamedTuple):
    """A field to solve, with the base's value and the ends of its range [SI]."""

    name: str
    base: float
    least: float
    most: float


class Machines(NamedTuple):
    """Machines with what limits are compared with."""

    usd: FloatArray  # Cost of a chip (N,) [USD]
    values: Mapping[str, FloatArray]  # Metrics by name (N,), `AREA` included
    fits: NDArray[np.bool_]  # Whether the model and all requests in flight fit in memory (N,)

    def meets(self, limits: Mapping[str, float]) -> NDArray[np.bool_]:
        """Return whether each meets all limits (N,)."""
        within = [self.values[name] <= most for name, most in limits.items()]
        met: NDArray[np.bool_] = np.logical_and.reduce([self.fits, *within])
        return met


@dataclass(frozen=True, kw_only=True)
class CheapestMachine:
    """The cheapest machine."""

    system: System  # The base with the solved fields as overrides
    chip: ChipCost  # What its chip costs, with intervals
    values: Mapping[str, float]  # Its metrics
    solved: Mapping[str, float]
    # By field, the limits that less of it misses; `RANGE` at the least of its range, and `COST` of
    # the number of dies
    held_by: Mapping[str, tuple[str, ...]]


def read_unknowns(texts: Sequence[str], system: System) -> tuple[Unknown, ...]:
    """Return the fields to solve.

    Args:
        texts: Names, each with a range if wanted: "device.l2=20MB:200MB"; "device.*" is the
            bandwidth and capacity of memory, L2 and SMs.

    Raises:
        InvalidSpecError: A field has no cost or no effect, or a range is invalid.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.studies import read_unknowns
        >>> read_unknowns(["device.memory.bandwidth=2TB/s:8TB/s"], resolve_system("h200_sxm"))
        (Unknown(name='device.memory.bandwidth', base=4800000000000.0, least=2000000000000.0,\
 most=8000000000000.0),)
    """
    values = field_values(system)
    every = [name for name in EVERY if values.get(name)]
    listed = [every if text == ALL_FIELDS else [text] for text in texts]
    named = [text.partition("=") for group in listed for text in group]
    unknowns = []
    for name, _, ends in named:
        if name not in SOLVED:
            raise InvalidSpecError(
                f"solve = {repr_for_error(name)}: its cost is not known, or estimates do not read"
                f" it; fields that are solved are {', '.join(SOLVED)}, or {ALL_FIELDS} for the"
                f" first {len(EVERY)}"
            )
        if not values.get(name):
            raise InvalidSpecError(f"solve = {name}: {system.name} does not state it")
        base, reader = float(values[name]), FIELDS[name].reader
        low, colon, high = ends.partition(":")
        if ends and not colon:
            raise InvalidSpecError(f"solve = {name}={ends}: a range is written least:most")
        least, most = (
            float(reader.read(end.strip(), f"solve: {name}")) if ends else base * ratio
            for end, ratio in ((low, 1.0 / SPAN), (high, SPAN))
        )
        if not 0.0 < least < most:
            raise InvalidSpecError(f"solve = {name}={ends}: the least must be below the most")
        if name == DIES:
            least, most = math.ceil(least), math.floor(most)
            if most > MAX_DIES:
                raise InvalidSpecError(f"solve = {name}={ends}: at most {MAX_DIES} dies are tried")
        unknowns.append(Unknown(name, base, least, most))
    if len({unknown.name for unknown in unknowns}) < len(unknowns):
        raise InvalidSpecError(f"solve = {', '.join(texts)}: a field is named twice")
    if sum(unknown.name != DIES for unknown in unknowns) > max(GRID):
        raise InvalidSpecError(
            f"solve = {', '.join(texts)}: at most {max(GRID)} fields and {DIES} are solved together"
        )
    return tuple(unknowns)


def cost_of_changed(base: System, changed: System) -> ChipCost:
    """Return the cost of the chip of a changed system.

    Memory is bought in stacks of the base, each with its share of bandwidth and capacity: there are
    as many as the larger of both takes. So is a second memory of a bandwidth of its own.
    """
    old, new = base.device, changed.device
    memory_bytes = max(
        new.memory_bytes, old.memory_bytes * new.memory_bandwidth / old.memory_bandwidth
    )
    second_bytes, second = new.number("second_memory_bytes"), "second_memory_bandwidth"
    if old.number(second):
        each = old.number("second_memory_bytes") / old.number(second)
        second_bytes = max(second_bytes, each * new.number(second))
    further = {**new.further, "second_memory_bytes": second_bytes}
    return chip_cost(replace(new, memory_bytes=memory_bytes, further=further))


@dataclass(frozen=True, kw_only=True)
class MachineSearch:
    """A search for the cheapest machine."""

    scaled: ScaledScenario  # The scenario on the base; its plan and limits hold for all machines
    unknowns: tuple[Unknown, ...]  # Fields to solve (F)
    limits: Mapping[str, float]  # Most of each metric, or of `AREA`
    dies: int | None = None  # Dies of a device, None for those of the base or of the unknowns

    @cached_property
    def by_dies(self) -> Mapping[int | None, MachineSearch]:
        """The search of each number of dies, the other fields unknown."""
        ranges = [(int(u.least), int(u.most)) for u in self.unknowns if u.name == DIES]
        others = tuple(unknown for unknown in self.unknowns if unknown.name != DIES)
        counts: list[int | None] = [n for low, high in ranges for n in range(low, high + 1)]
        return {n: replace(self, unknowns=others, dies=n) for n in counts or [None]}

    def solve(self, limits: Mapping[str, float] | None = None) -> CheapestMachine:
        """Return the cheapest machine, of any number of dies in their range.

        Args:
            limits: Other limits than those of the search.

        Raises:
            InfeasibleError: No machine of the ranges meets all limits; the message has the nearest.
        """
        solved, errors = [], []
        for search in self.by_dies.values():
            try:
                solved.append(search.solve_fields(self.limits if limits is None else limits))
            except InfeasibleError as error:
                errors.append(error)
        if not solved:
            raise errors[0]
        return min(solved, key=lambda found: found.chip.total_usd[0])

    def solve_fields(self, limits: Mapping[str, float]) -> CheapestMachine:
        """Return the cheapest machine of a number of dies: grids, then less of each field.

        Latencies fall, and area, power and cost rise with each field, so that the machines that
        keep a limit end where one is met exactly; this is bisected.
        """
        points, grid = self._whole_range
        best = _cheapest(points, grid, limits)
        if best is None:
            raise _none(grid, limits)
        steps = [
            (u.most / u.least) ** (1.0 / (GRID[len(self.unknowns)] - 1)) for u in self.unknowns
        ]
        for _ in range(ZOOMS):
            ends = [
                (max(u.least, value / step), min(u.most, value * step))
                for u, value, step in zip(self.unknowns, best, steps, strict=True)
            ]
            points = [best, *self._grid(ends, FINER)]
            best = _cheapest(points, self.machines(points), limits) or best
            steps = [step**0.5 for step in steps]
        for index, unknown in enumerate(self.unknowns):
            best = self._reduced(best, index, unknown, limits)
        return self._found(best, limits)

    def machines(self, points: Sequence[Sequence[float]]) -> Machines:
        """Return machines, each a value of every unknown field (N)."""
        dies = {} if self.dies is None else {DIES: self.dies / self._base.device.dies}
        changes = [
            {u.name: value / u.base for u, value in zip(self.unknowns, point, strict=True)} | dies
            for point in points
        ]
        columns = self.scaled.results(changes)
        chips = [self._chip(point) for point in points]
        area = np.array([np.inf if chip is None else chip.area_mm2[0] for chip in chips])
        usd = np.array([np.inf if chip is None else chip.total_usd[0] for chip in chips])
        fits = self.scaled.fits(changes) & np.isfinite(usd)
        return Machines(usd, columns | {AREA: area}, fits)

    def _chip(self, point: Sequence[float]) -> ChipCost | None:
        """Return the cost of the chip of a machine, None where no package holds it."""
        try:
            return cost_of_changed(self._base, self._system(point))
        except InfeasibleError:
            return None

    @property
    def _base(self) -> System:
        return self.scaled.systems[0]

    def _system(self, point: Sequence[float]) -> System:
        values = {u.name: value for u, value in zip(self.unknowns, point, strict=True)}
        return with_values(
            self._base, values if self.dies is None else {**values, DIES: float(self.dies)}
        )

    def _grid(self, ends: Sequence[tuple[float, float]], size: int) -> list[tuple[float, ...]]:
        axes = []
        for unknown, (least, most) in zip(self.unknowns, ends, strict=True):
            values = np.geomspace(least, most, size)
            whole = unknown.name == SM_COUNT
            axes.append(np.unique(np.round(values) if whole else values).tolist())
        return list(product(*axes))

    @cached_property
    def _whole_range(self) -> tuple[list[tuple[float, ...]], Machines]:
        """The grid of all ranges."""
        points = self._grid([(u.least, u.most) for u in self.unknowns], GRID[len(self.unknowns)])
        return points, self.machines(points)

    def _reduced(
        self,
        best: tuple[float, ...],
        position: int,
        unknown: Unknown,
        limits: Mapping[str, float],
    ) -> tuple[float, ...]:
        """Return the machine with as little of a field as meets all limits."""

        def with_value(value: float) -> tuple[float, ...]:
            return (*best[:position], value, *best[position + 1 :])

        def meets(value: float) -> bool:
            return bool(self.machines([with_value(value)]).meets(limits)[0])

        if meets(unknown.least):
            return with_value(unknown.least)
        if unknown.name == SM_COUNT:
            value, _ = bisected(
                meets, best[position], unknown.least, lambda a, b: float((a + b) // 2), _next_to
            )
        else:
            value, _ = bisected(
                meets, best[position], unknown.least, lambda a, b: (a * b) ** 0.5, _is_close
            )
        return with_value(value)

    def _found(self, point: tuple[float, ...], limits: Mapping[str, float]) -> CheapestMachine:
        """Return a machine with what holds each of its fields."""
        system, held_by = self._system(point), {}
        for index, unknown in enumerate(self.unknowns):
            less = point[index] - 1.0 if unknown.name == SM_COUNT else point[index] * LESS
            smaller = self.machines([(*point[:index], less, *point[index + 1 :])])
            missed = [name for name, most in limits.items() if smaller.values[name][0] > most]
            missed += [] if smaller.fits[0] else [MEMORY]
            at_end = point[index] <= unknown.least * (1.0 + EDGE)
            held_by[unknown.name] = tuple(missed) if not at_end else (RANGE,)
        here = self.machines([point])
        solved = {u.name: value for u, value in zip(self.unknowns, point, strict=True)}
        if self.dies is not None:
            held_by[DIES], solved[DIES] = (COST,), float(self.dies)
        return CheapestMachine(
            system=system,
            chip=cost_of_changed(self._base, system),
            values={name: float(column[0]) for name, column in here.values.items()},
            solved=solved,
            held_by=held_by,
        )


def _cheapest(
    points: Sequence[tuple[float, ...]], machines: Machines, limits: Mapping[str, float]
) -> tuple[float, ...] | None:
    """Return the cheapest of some machines that meet all limits, the smallest of equal ones."""
    indices = np.flatnonzero(machines.meets(limits))
    if not indices.size:
        return None
    size = np.log(np.array(points)[indices]).sum(axis=1)
    return points[int(indices[np.lexsort((size, machines.usd[indices]))[0]])]


def _none(machines: Machines, limits: Mapping[str, float]) -> InfeasibleError:
    """Return which limits no machine meets, with the nearest value of each."""
    reasons = [
        f"{name} is at least {machines.values[name].min():.4g}, above its limit {most:g}"
        for name, most in limits.items()
        if not np.any(machines.values[name] <= most)
    ]
    reasons += (
        [] if np.any(machines.fits) else ["no memory of the range holds the model and all requests"]
    )
    why = "; ".join(reasons) or "each limit is met by some of them, all by none"
    return InfeasibleError(
        f"no machine of the ranges meets all limits: {why}; widen the ranges, or the limits"
    )


def _next_to(met: float, missed: float) -> bool:
    return abs(met - missed) <= 1.0


def _is_close(met: float, missed: float) -> bool:
    return met / missed < 1.0 + REL_TOL


def dies_rows(search: MachineSearch) -> list[dict[str, Any]]:
    """Return the cheapest machine of each number of dies.

    Returns:
        Rows of `dies`, `chip_usd` and `die_mm2` (None where no machine meets all limits), and
        `reason`, why not ("" where one does); none if dies are not solved.
    """
    rows = []
    for dies, one in search.by_dies.items():
        if dies is None:
            continue
        row: dict[str, Any] = {"dies": dies, "chip_usd": None, AREA: None, "reason": ""}
        try:
            found = one.solve_fields(search.limits)
        except InfeasibleError as error:
            row["reason"] = str(error)
        else:
            row |= {"chip_usd": found.chip.total_usd[0], AREA: found.chip.area_mm2[0]}
        rows.append(row)
    return rows


def limit_costs(search: MachineSearch, best: CheapestMachine, by: float) -> list[dict[str, Any]]:
    """Return what the cheapest machine costs with each limit tightened and loosened.

    Args:
        best: The cheapest machine.
        by: Share by which a limit moves.

    Returns:
        Rows of `limit`, `most`, `value`, `tighter_chip_usd` (None where no machine meets it) and
        `looser_chip_usd` [USD].
    """
    rows = []
    for name, most in search.limits.items():
        row: dict[str, Any] = {"limit": name, "most": most, "value": best.values[name]}
        for side, ratio in (("tighter", 1.0 - by), ("looser", 1.0 + by)):
            try:
                moved = search.solve({**search.limits, name: most * ratio})
            except InfeasibleError:
                row[f"{side}_chip_usd"] = None
            else:
                row[f"{side}_chip_usd"] = moved.chip.total_usd[0]
        rows.append(row)
    return rows
