"""The best layouts of a search: branch and bound over all legal ones.

Layouts are priced in the order of their lower bounds, some at a time, until the bound of the next
one exceeds the last of the best: no layout that is left can be better.

Shape legend: C candidates of all families, N layouts priced together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.layouts import take_layouts
from perfatlas.training.step import training_steps
from perfatlas.verbs.train.search.space import FITS, layout_space

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.step import TrainingQuestion, TrainingSteps
    from perfatlas.verbs.train.search.question import LayoutSearchInputs
    from perfatlas.verbs.train.search.space import Family, Space

AT_ONCE: Final = 1024
# sizes in which layouts of the answer differ; of each the best of all other choices is shown
IDENTITY: Final = ("gpus", "tp", "pp", "cp", "ep", "expert_tp")
SLOW_STEP: Final = "max_step_time_s"


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A layout with its step.

    Args:
        question: The layout alone.
        score: The objective, smaller is better.
        step_s: Step time [s].
        memory_bytes: Memory of the fullest GPU [bytes].
        identity: Its sizes of `IDENTITY`.
    """

    question: TrainingQuestion
    score: tuple[float, ...]
    step_s: float
    memory_bytes: float
    identity: tuple[float, ...]


@dataclass(kw_only=True)
class FoundLayouts:
    """What a search found.

    Args:
        best: The best layout of each identity, best first.
        space: All layouts.
        priced: Number of layouts that were priced.
        excluded: Number of layouts that their bounds exclude.
        cpu_s: CPU time [s].
        nearest: The layout that needs least memory, where none fits.
        columns: All priced layouts that fit, as columns.
    """

    best: list[Priced] = field(default_factory=list)
    space: Space
    priced: int = 0
    excluded: int = 0
    cpu_s: float = 0.0
    nearest: Priced | None = None
    columns: list[dict[str, Any]] = field(default_factory=list)


class _Bounds:
    """Bounds of the layouts of all families.

    Args:
        space: The layouts.
        inputs: The search.
    """

    def __init__(self, space: Space, inputs: LayoutSearchInputs) -> None:
        families = space.families
        sizes = [family.question.layouts.size for family in families]
        self.family_C = np.repeat(np.arange(len(families)), sizes)
        self.place_C = np.concatenate([np.arange(size) for size in sizes])
        step_s_C = np.concatenate([family.step_s_C for family in families])
        gpus_C = np.concatenate([family.question.layouts.gpus for family in families])
        self.memory_bytes_C = np.concatenate([family.memory_bytes_C for family in families])
        self.capacity_C = np.concatenate(
            [family.question.devices().gather("memory_bytes") for family in families]
        )
        self.fits_C = self.memory_bytes_C <= self.capacity_C
        self.in_time_C = step_s_C <= (inputs.max_step_time_s or np.inf)
        # (C, 2): compared as pairs
        self.score_C2 = score_of(inputs.objective, step_s_C, gpus_C)


def score_of(objective: str, step_s: FloatArray, gpus: FloatArray) -> FloatArray:
    """Return the objective as pairs, of which the smaller is better (C, 2).

    Args:
        objective: Metric that ranks the layouts.
        step_s: Step times, or bounds of them (C,) [s].
        gpus: GPUs (C,).
    """
    first = {"step_time_s": step_s, "tokens_per_s_per_gpu": step_s * gpus, "gpus": gpus}[objective]
    return np.stack([first, step_s], axis=1)


def find_layouts(
    inputs: LayoutSearchInputs,
    *,
    counts: tuple[int, ...],
    progress: Callable[[int, int], None] | None = None,
) -> FoundLayouts:
    """Return the best layouts.

    Args:
        inputs: The search.
        counts: Numbers of GPUs to search.
        progress: Called with the layouts done and the total.

    Raises:
        InvalidSpecError: The sizes have more combinations than can be held.
    """
    started = time.process_time()
    space = layout_space(inputs, counts)
    found = FoundLayouts(space=space)
    if space.families:
        bounds = _Bounds(space, inputs)
        _search(found, bounds, inputs, progress)
        if not found.best:
            found.nearest = _nearest(space, bounds)
    found.cpu_s = time.process_time() - started
    return found


def _search(
    found: FoundLayouts,
    bounds: _Bounds,
    inputs: LayoutSearchInputs,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Price layouts in the order of their bounds until no other can be among the best."""
    total, space = found.space.size, found.space
    open_C = np.flatnonzero(bounds.fits_C & bounds.in_time_C)
    space.rejected[FITS] += int(np.count_nonzero(~bounds.fits_C))
    space.rejected[SLOW_STEP] += int(np.count_nonzero(bounds.fits_C & ~bounds.in_time_C))
    order_C = open_C[np.lexsort(bounds.score_C2[open_C].T[::-1])]
    best: dict[tuple[float, ...], Priced] = {}
    wanted = inputs.num_layouts + 1
    start = 0
    while start < order_C.size:
        if progress is not None:
            progress(total - order_C.size + start, total)
        last = _last_of(best, wanted)
        following_C = order_C[start : start + AT_ONCE]
        if last is not None:
            can_C = _not_above(bounds.score_C2[following_C], last)
            following_C = following_C[can_C]
            if not following_C.size:
                break
        for number in np.unique(bounds.family_C[following_C]).tolist():
            own = bounds.place_C[following_C[bounds.family_C[following_C] == number]]
            _price(found, space.families[number], own, inputs, best)
        start += following_C.size
        found.priced += int(following_C.size)
    found.excluded = int(order_C.size) - start
    found.best = sorted(best.values(), key=lambda one: (one.score, one.memory_bytes))[:wanted]


def _not_above(
    score_C2: FloatArray, last: tuple[float, ...]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the scores that do not exceed another one (C,)."""
    below = score_C2[:, 0] < last[0]
    equal = score_C2[:, 0] == last[0]
    allowed: np.ndarray[Any, np.dtype[np.bool_]] = below | (equal & (score_C2[:, 1] <= last[1]))
    return allowed


def _last_of(best: dict[tuple[float, ...], Priced], wanted: int) -> tuple[float, ...] | None:
    """Return the score of the last of the wanted layouts; None if there are fewer."""
    if len(best) < wanted:
        return None
    return sorted(one.score for one in best.values())[wanted - 1]


def _taken(family: Family, places: IntArray) -> tuple[TrainingQuestion, TrainingSteps]:
    """Return some layouts of a family and their steps."""
    question = replace(
        family.question,
        layouts=take_layouts(family.question.layouts, places),
        index_C=family.question.index_C[places],
    )
    costs = replace(family.costs, index_C=family.costs.index_C[places])
    return question, training_steps(question, costs)


def _price(
    found: FoundLayouts,
    family: Family,
    places: IntArray,
    inputs: LayoutSearchInputs,
    best: dict[tuple[float, ...], Priced],
) -> None:
    """Price some layouts of a family and keep the best of each identity."""
    question, steps = _taken(family, places)
    fits_N = steps.memory.fits
    in_time_N = steps.step_s_C <= (inputs.max_step_time_s or np.inf)
    found.space.rejected[FITS] += int(np.count_nonzero(~fits_N))
    found.space.rejected[SLOW_STEP] += int(np.count_nonzero(fits_N & ~in_time_N))
    kept = np.flatnonzero(fits_N & in_time_N)
    for at in kept.tolist():
        one = _priced(question, steps, at, inputs)
        known = best.get(one.identity)
        if known is None or (one.score, one.memory_bytes) < (known.score, known.memory_bytes):
            best[one.identity] = one
    layouts = take_layouts(question.layouts, kept)
    size = kept.size
    found.columns.append(
        {
            "gpus": layouts.gpus,
            **vars(layouts),
            "pipeline_schedule": np.full(size, question.schedule, dtype=object),
            "expert_overlap": np.full(size, question.expert_overlap),
            "step_time_s": steps.step_s_C[kept],
            "memory_total_bytes": steps.memory.total_bytes[kept],
        }
    )


def _priced(
    question: TrainingQuestion, steps: TrainingSteps, at: int, inputs: LayoutSearchInputs
) -> Priced:
    """Return a layout with its step."""
    layouts = question.layouts
    score = score_of(inputs.objective, steps.step_s_C[[at]], layouts.gpus[[at]])[0]
    place = np.array([at])
    return Priced(
        question=replace(
            question, layouts=take_layouts(layouts, place), index_C=question.index_C[place]
        ),
        score=tuple(float(value) for value in score),
        step_s=float(steps.step_s_C[at]),
        memory_bytes=float(steps.memory.total_bytes[at]),
        identity=tuple(float(getattr(layouts, name)[at]) for name in IDENTITY),
    )


def _nearest(space: Space, bounds: _Bounds) -> Priced | None:
    """Return the layout that needs least memory among those with the lowest bounds."""
    order_C = np.argsort(bounds.memory_bytes_C - bounds.capacity_C, kind="stable")[:AT_ONCE]
    nearest: Priced | None = None
    for number in np.unique(bounds.family_C[order_C]).tolist():
        own = bounds.place_C[order_C[bounds.family_C[order_C] == number]]
        question, steps = _taken(space.families[number], own)
        at = int(np.argmin(steps.memory.total_bytes))
        memory_bytes = float(steps.memory.total_bytes[at])
        if nearest is None or memory_bytes < nearest.memory_bytes:
            place = np.array([at])
            nearest = Priced(
                question=replace(
                    question,
                    layouts=take_layouts(question.layouts, place),
                    index_C=question.index_C[place],
                ),
                score=(float(steps.step_s_C[at]),),
                step_s=float(steps.step_s_C[at]),
                memory_bytes=memory_bytes,
                identity=(),
            )
    return nearest
