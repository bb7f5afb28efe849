"""The best layouts of a search: branch and bound over all legal ones.

Layouts are taken in the order of their lower bounds, some at a time, until the bound of the next
one exceeds the last of the best: no layout that is left can be better. Sharper bounds exclude some
of those that are taken; the others are priced.

Shape legend: C candidates of all families, N layouts priced together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.training.layouts import distinct_rows, take_layouts
from perfatlas.training.step import sharper_step_bounds, training_steps
from perfatlas.verbs.train.search.question import SEARCHED
from perfatlas.verbs.train.search.space import FITS, layout_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.step import MicroBatchCosts, TrainingQuestion, TrainingSteps
    from perfatlas.verbs.train.search.question import LayoutSearchInputs
    from perfatlas.verbs.train.search.space import Family, Space

AT_ONCE: Final = 4096  # layouts whose bounds are sharpened together
PRICED_AT_ONCE: Final = 256
# choices of which the answer shows the best for each combination of all other sizes
CHOICES: Final = ("vpp", "micro_batch", "zero", "recompute")
SLOW_STEP: Final = "max_step_time_s"


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A layout with its step.

    Args:
        question: The layout alone.
        score: The objective, smaller is better.
        step_s: Step time [s].
        memory_bytes: Memory of the fullest GPU [bytes].
        identity: Its sizes in which layouts of the answer differ.
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
        self.score_C2 = score_of(inputs, step_s_C, gpus_C)


def score_of(inputs: LayoutSearchInputs, step_s: FloatArray, gpus: FloatArray) -> FloatArray:
    """Return the objective as pairs, of which the smaller is better (C, 2).

    Args:
        inputs: The search.
        step_s: Step times, or bounds of them (C,) [s].
        gpus: GPUs (C,).
    """
    match inputs.objective:
        case "step_time_s":
            first = step_s
        case "tokens_per_s_per_gpu":
            first = step_s * gpus
        case "gpus":
            first = gpus
        case "effective_step_time_s":
            goodput_D, which_C = _goodput(inputs, gpus)
            goodput_C = goodput_D[which_C]
            never_C = np.full_like(step_s, np.inf)  # without progress
            first = np.divide(step_s, goodput_C, out=never_C, where=goodput_C > 0.0)
    return np.stack([first, step_s], axis=1)


def _goodput(inputs: LayoutSearchInputs, gpus: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the goodput of distinct numbers of GPUs, and which one each layout has (C,)."""
    distinct, which_C = np.unique(gpus, return_inverse=True)
    return inputs.goodput(distinct), which_C


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
        following_C = order_C[start : start + AT_ONCE]
        start += following_C.size
        last = _last_of(best, wanted)
        if last is not None:
            can_C = _not_above(bounds.score_C2[following_C], last)
            if not can_C.any():
                break
            following_C = following_C[can_C]
        found.priced += _price_by_bound(found, bounds, following_C, inputs, best)
    found.excluded = int(order_C.size) - found.priced
    found.best = sorted(best.values(), key=lambda one: (one.score, one.memory_bytes))[:wanted]


def _price_by_bound(
    found: FoundLayouts,
    bounds: _Bounds,
    places_C: IntArray,
    inputs: LayoutSearchInputs,
    best: dict[tuple[float, ...], Priced],
) -> int:
    """Price some layouts in the order of sharper bounds; return how many were not excluded."""
    score_N2 = np.empty((places_C.size, 2))
    for number, own_N in _by_family(bounds, places_C):
        family = found.space.families[number]
        question, costs = _of_family(family, bounds.place_C[places_C[own_N]])
        step_s_N = sharper_step_bounds(question, costs)
        score_N2[own_N] = score_of(inputs, step_s_N, question.layouts.gpus)
    priced = 0
    order_N = np.lexsort(score_N2.T[::-1])
    for start in range(0, order_N.size, PRICED_AT_ONCE):
        following_N = order_N[start : start + PRICED_AT_ONCE]
        last = _last_of(best, inputs.num_layouts + 1)
        if last is not None:
            following_N = following_N[_not_above(score_N2[following_N], last)]
            if not following_N.size:
                break
        for number, own_N in _by_family(bounds, places_C[following_N]):
            places = bounds.place_C[places_C[following_N[own_N]]]
            _price(found, found.space.families[number], places, inputs, best)
        priced += following_N.size
    return priced


def _by_family(bounds: _Bounds, places_C: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each family of some layouts, and which of them are its own."""
    family_N = bounds.family_C[places_C]
    for number in np.unique(family_N).tolist():
        yield number, np.flatnonzero(family_N == number)


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


def _of_family(family: Family, places: IntArray) -> tuple[TrainingQuestion, MicroBatchCosts]:
    """Return some layouts of a family and their micro-batches."""
    question = replace(
        family.question,
        layouts=take_layouts(family.question.layouts, places),
        index_C=family.question.index_C[places],
    )
    return question, replace(family.costs, index_C=family.costs.index_C[places])


def _price(
    found: FoundLayouts,
    family: Family,
    places: IntArray,
    inputs: LayoutSearchInputs,
    best: dict[tuple[float, ...], Priced],
) -> None:
    """Price some layouts of a family and keep the best of each identity."""
    question, costs = _of_family(family, places)
    steps = training_steps(question, costs)
    fits_N = steps.memory.fits
    in_time_N = steps.step_s_C <= (inputs.max_step_time_s or np.inf)
    found.space.rejected[FITS] += int(np.count_nonzero(~fits_N))
    found.space.rejected[SLOW_STEP] += int(np.count_nonzero(fits_N & ~in_time_N))
    kept = np.flatnonzero(fits_N & in_time_N)
    for one in _best_of(question, steps, kept, inputs):
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


def _best_of(
    question: TrainingQuestion, steps: TrainingSteps, kept: IntArray, inputs: LayoutSearchInputs
) -> Iterator[Priced]:
    """Yield the best layout of each identity among those that are kept."""
    layouts, memory_bytes_N = question.layouts, steps.memory.total_bytes
    score_N2 = score_of(inputs, steps.step_s_C, layouts.gpus)
    kept = kept[np.lexsort((memory_bytes_N[kept], *score_N2[kept].T[::-1]))]
    names = _identity(inputs, question)
    identity_N = np.stack([getattr(layouts, name)[kept] for name in names], axis=1)
    for at in kept[distinct_rows(identity_N)[0]].tolist():
        yield Priced(
            question=_alone(question, at),
            score=tuple(score_N2[at].tolist()),
            step_s=float(steps.step_s_C[at]),
            memory_bytes=float(memory_bytes_N[at]),
            identity=tuple(float(getattr(layouts, name)[at]) for name in names),
        )


def _identity(inputs: LayoutSearchInputs, question: TrainingQuestion) -> tuple[str, ...]:
    """Return the sizes in which layouts of the answer differ."""
    names = ("gpus", *vars(question.layouts))
    sizes = tuple(name for name in names if name not in CHOICES)
    follow = ("dp",) if question.network.has_experts else ("dp", "ep", "expert_tp")
    free = set(SEARCHED).intersection(sizes).difference(inputs.pinned, follow)
    return sizes if free or inputs.gpus is None else names


def _alone(question: TrainingQuestion, at: int) -> TrainingQuestion:
    """Return the question of one layout."""
    place = np.array([at])
    return replace(
        question, layouts=take_layouts(question.layouts, place), index_C=question.index_C[place]
    )


def _nearest(space: Space, bounds: _Bounds) -> Priced | None:
    """Return the layout that needs least memory among those with the lowest bounds."""
    order_C = np.argsort(bounds.memory_bytes_C - bounds.capacity_C, kind="stable")[:AT_ONCE]
    nearest: Priced | None = None
    for number, own_N in _by_family(bounds, order_C):
        question, costs = _of_family(space.families[number], bounds.place_C[order_C[own_N]])
        steps = training_steps(question, costs)
        at = int(np.argmin(steps.memory.total_bytes))
        memory_bytes = float(steps.memory.total_bytes[at])
        if nearest is None or memory_bytes < nearest.memory_bytes:
            nearest = Priced(
                question=_alone(question, at),
                score=(float(steps.step_s_C[at]),),
                step_s=float(steps.step_s_C[at]),
                memory_bytes=memory_bytes,
                identity=(),
            )
    return nearest
