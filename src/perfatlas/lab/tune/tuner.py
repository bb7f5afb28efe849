"""`kernel tune`: designs of one kernel, priced, compiled and measured as far as this machine can.

Shape legend: D designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.lab.tune.chip import DATA, Chip, chip_of, rank_error
from perfatlas.lab.tune.compiled import can_compile, compile_designs
from perfatlas.lab.tune.designs import Designs
from perfatlas.lab.tune.kernels import KERNELS, SOURCE_FORMATS, Question
from perfatlas.lab.tune.measured import CAREFUL, GpuTimes, MeasuredTime, deadline
from perfatlas.lab.tune.measured_search import MeasuredSearch, search_measured
from perfatlas.lab.tune.object_time import compiler_loss
from perfatlas.lab.tune.selection import KEPT, Selection, relief, select
from perfatlas.lab.tune.work import PricedDesigns, price_designs, price_these
from perfatlas.quantities import InfeasibleError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.lab.tune.designs import CompiledDesign

LOSS: Final = ("compiled_time_s", "compiler_loss", "compiler_loss_from")  # of compilers
UNRANKED: Final = {"tile": 0.2}  # spread of a kernel whose ranks were not scored
ROUNDS: Final = 3  # of compilation: designs that follow rejected ones are compiled too


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What is known of the designs of one kernel and shape."""

    question: Question
    chip: Chip
    priced: PricedDesigns
    selection: Selection
    default_name: str
    compiled: Mapping[int, CompiledDesign]  # by place of a design
    measured: Mapping[int, MeasuredTime]
    versions: Mapping[str, str]  # of the compiler
    device: str = ""  # GPU that measured

    @property
    def order(self) -> list[int]:
        """Places of kept designs, the fastest first: measured ones before others."""
        times = self.priced.times.time_s_D
        return sorted(
            self.selection.kept,
            key=lambda place: (
                place not in self.measured,
                self.measured[place].time_s if place in self.measured else float(times[place]),
            ),
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return the kept designs, the fastest first."""
        found = []
        for rank, place in enumerate(self.order, 1):
            time_s = float(self.priced.times.time_s_D[place])
            width = half_width(self.question.kernel)
            made, timed = self.compiled.get(place), self.measured.get(place)
            loss: dict[str, Any] = {}
            if made and made.kernel and made.kernel.instructions:
                designed = [demand.at(place) for demand in self.priced.demands]
                loss = compiler_loss(made.kernel, designed, self.question.device)
            found.append(
                {
                    "rank": rank,
                    **self.priced.designs.row(place),
                    "default": place == self.selection.default,
                    "time_s": time_s,
                    "time_s_low": time_s * math.exp(-width),
                    "time_s_high": time_s * math.exp(width),
                    "blocks_per_sm": int(self.priced.times.blocks_per_sm_D[place]),
                    **relief(self.priced, place, self.chip),
                    "registers": made.registers if made else None,
                    **{name: loss.get(name) for name in LOSS},
                    "measured_s": timed.time_s if timed and math.isfinite(timed.time_s) else None,
                    "problem": (timed.problem if timed else "") or None,
                }
            )
        return found


def half_width(kernel: str) -> float:
    """Return the half-width of ln(time) of a kernel, of its 90% interval."""
    return float(shipped_table(DATA)["half_width"][kernel]["value"])


def design_time_s(question: Question, design: Mapping[str, int]) -> float:
    """Return the predicted time of one design, also of one beyond the search space [s].

    Args:
        question: The kernel.
        design: All sizes of the design, by the names of the search space.
    """
    chip = chip_of(question.device, question.number_format)
    work = KERNELS[question.kernel].work(question, chip)
    one = Designs(columns={name: np.array([float(size)]) for name, size in design.items()})
    return float(price_these(work, chip, one).times.time_s_D[0])


def tune(
    question: Question, *, keep: int = KEPT, compiles: bool = True, budget_s: float | None = None
) -> Tuning:
    """Return the designs of a kernel that are worth a measurement, with their times.

    Args:
        question: The kernel, its shape and where it runs.
        keep: Most designs.
        compiles: Whether designs are compiled where Triton is installed.
        budget_s: Time to measure designs on the GPU of this machine [s]; None for no measurement.

    Raises:
        UnsupportedError: No kernel of the format or the device, or it cannot be measured here.
        InfeasibleError: No design of the search space can be launched.
    """
    if question.number_format.name not in SOURCE_FORMATS:
        raise UnsupportedError(
            f"kernel tune has no kernels in format = {question.number_format.name}; use one of"
            f" {', '.join(SOURCE_FORMATS)}"
        )
    chip = chip_of(question.device, question.number_format)
    kernel = KERNELS[question.kernel]
    timer = None if budget_s is None else GpuTimes(question, chip)
    work = kernel.work(question, chip)
    default, name = kernel.default(question, chip)
    priced = price_designs(work, chip, [default] if default else [])
    if not priced.legal_D.any():
        reasons = "; ".join(f"{count} {reason}" for reason, count in priced.rejected.items())
        raise InfeasibleError(
            f"no design of {question.kernel} can be launched on {chip.name}: {reasons}"
        )
    compiled: dict[int, CompiledDesign] = {}
    versions: Mapping[str, str] = {}
    error = rank_error(question.kernel, chip.target)
    selection = select(priced, default, error, keep)
    for _ in range(ROUNDS if compiles and can_compile() else 0):
        new = [place for place in selection.kept if place not in compiled]
        if not new:
            break
        designs = [priced.designs.row(place) for place in new]
        made, versions = compile_designs(question, designs, chip)
        compiled |= dict(zip(new, made, strict=True))
        priced = price_these(work, chip, priced.designs, compiled)
        if not priced.legal_D.any():
            break
        selection = select(priced, default, error, keep)
    if compiled and all(made.problem for made in compiled.values()):
        problem = next(iter(compiled.values())).problem
        raise InfeasibleError(
            f"none of {len(compiled)} designs of {question.kernel} compiles for {chip.target}:"
            f" {problem}"
        )
    measured: dict[int, MeasuredTime] = {}
    if timer is not None and budget_s is not None:
        spread = (error or UNRANKED)["tile"]
        measured = _measured(timer, priced, selection, budget_s, spread)
        selection = replace(selection, kept=list(dict.fromkeys([*measured, *selection.kept])))
    return Tuning(
        question=question,
        chip=chip,
        priced=priced,
        selection=selection,
        default_name=name,
        compiled=compiled,
        measured=measured,
        versions=versions,
        device=timer.device if timer else "",
    )


def _measured(
    timer: GpuTimes, priced: PricedDesigns, selection: Selection, budget_s: float, spread: float
) -> dict[int, MeasuredTime]:
    """Return the times of designs that were measured within a budget.

    First the default and the first of the list; then what the measured ones make likely. The best
    two and the default are measured once more, carefully, one after the other.
    """
    found: dict[int, MeasuredTime] = {}

    def time_of(place: int) -> float:
        found[place] = timer.time(priced.designs.row(place))
        return found[place].time_s

    sizes_DS = np.stack([np.log2(1.0 + column) for column in priced.designs.columns.values()], 1)
    search = MeasuredSearch(
        log_time_D=np.log(priced.times.time_s_D),
        sizes_DS=sizes_DS,
        spread=spread,
    )
    first = [selection.default] if selection.default is not None else []
    first += [place for place in selection.kept if place not in first]
    search_measured(search, first[:4], time_of, deadline(0.8 * budget_s))
    best = sorted(found, key=lambda place: found[place].time_s)[:2]
    for place in dict.fromkeys([*first[:1], *best]):
        if math.isfinite(found.get(place, MeasuredTime(time_s=math.inf)).time_s):
            found[place] = timer.time(priced.designs.row(place), CAREFUL)
    return found
