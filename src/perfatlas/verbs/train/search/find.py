"""The best layouts of a search: branch and bound over all legal ones.

Layouts are taken in the order of their lower bounds, some at a time, until the bound of the next
one exceeds the last of the best: no layout that is left can be better. Sharper bounds exclude some
of those that are taken; the others are priced.

Shape legend: C candidates of all families, N layouts priced together, C candidates, A values of a
size.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.training_steps import ZERO, question_of, refused_by_recipe
from perfatlas.training.layouts import (
    RECOMPUTE_LEVELS,
    distinct_rows,
    layout_problems,
    take_layouts,
)
from perfatlas.training.step import (
    lower_bounds,
    micro_batch_costs,
    sharper_step_bounds,
    training_steps,
)
from perfatlas.verbs.train.search.question import SEARCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.step import MicroBatchCosts, TrainingQuestion, TrainingSteps
    from perfatlas.verbs.train.search.question import LayoutSearchInputs

# sizes that are searched unless they are given
LEAST_TOKENS: Final = 1024  # of a sequence on a context-parallel rank
MOST_MICRO_BATCH: Final = 16
# layouts of one family of schedules: more would not be held in memory at once
MOST_LAYOUTS: Final = 20_000_000
DUALPIPE: Final = "dualpipe"
FITS: Final = "fits_in_memory"
RECIPE: Final = "recipe"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Legal layouts that share a pipeline schedule, with their bounds.

    Args:
        question: The candidates.
        costs: Their micro-batches.
        step_s_C: Lower bound of the step time (C,) [s].
        memory_bytes_C: Lower bound of the memory of the fullest GPU (C,) [bytes].
    """

    question: TrainingQuestion
    costs: MicroBatchCosts
    step_s_C: FloatArray
    memory_bytes_C: FloatArray


@dataclass(kw_only=True)
class Space:
    """The layouts of a search.

    Args:
        families: Legal layouts by schedule.
        rejected: Layouts that a rule refuses, by the first such rule.
    """

    families: list[Family] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """Number of legal layouts."""
        return sum(family.question.layouts.size for family in self.families)


def layout_space(inputs: LayoutSearchInputs, counts: tuple[int, ...]) -> Space:
    """Return the layouts of a search.

    Args:
        inputs: The search.
        counts: Numbers of GPUs to search.

    Raises:
        InvalidSpecError: The sizes have more combinations than can be held.
    """
    found = Space()
    base = question_of([inputs.on(1)])
    legal: list[TrainingQuestion] = []
    for schedule, overlap in _schedules(inputs, base):
        layouts = _combined(inputs, base, counts, schedule, overlap=overlap)
        if layouts is None:
            continue
        kept = _legal(base, layouts, schedule, inputs, found.rejected)
        if kept.size:
            asked = replace(base, schedule=schedule, expert_overlap=overlap)
            none_C = np.zeros(kept.size, np.int64)
            legal.append(replace(asked, layouts=take_layouts(layouts, kept), index_C=none_C))
    if legal:
        found.families = _with_bounds(legal)
    return found


def _with_bounds(questions: list[TrainingQuestion]) -> list[Family]:
    """Return families of questions, whose equal shapes are priced once."""
    columns = [vars(one.layouts) for one in questions]
    joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    ends = np.cumsum([one.layouts.size for one in questions])
    everything = replace(
        questions[0],
        layouts=type(questions[0].layouts)(**joined),
        index_C=np.zeros(int(ends[-1]), np.int64),
    )
    costs = micro_batch_costs(everything)
    families = []
    for one, index_C in zip(questions, np.split(costs.index_C, ends[:-1]), strict=True):
        own = replace(costs, index_C=index_C)
        bounds = lower_bounds(one, own)
        families.append(
            Family(
                question=one,
                costs=own,
                step_s_C=bounds.step_s_C,
                memory_bytes_C=bounds.memory_bytes_C,
            )
        )
    return families


def _schedules(inputs: LayoutSearchInputs, base: TrainingQuestion) -> Iterator[tuple[str, bool]]:
    """Yield the schedules of the engine, or the given one, with and without overlapped experts."""
    given = inputs.pipeline_schedule
    for schedule in (given,) if given else base.engine.schedules:
        if schedule == DUALPIPE or not base.network.has_experts:
            yield schedule, False
        elif "expert_overlap" in inputs.pinned:
            yield schedule, inputs.expert_overlap
        else:
            yield from ((schedule, False), (schedule, True))


def _combined(
    inputs: LayoutSearchInputs,
    base: TrainingQuestion,
    counts: tuple[int, ...],
    schedule: str,
    *,
    overlap: bool,
) -> Layouts | None:
    """Return all combinations of sizes whose product is a number of GPUs; None without any."""
    sizes = _sizes(inputs, base, counts, schedule)
    number = int(np.prod([float(len(values)) for values in sizes.values()]))
    if number > MOST_LAYOUTS:
        raise InvalidSpecError(
            f"{number:,} layouts of schedule {schedule} are too many for one search (at most"
            f" {MOST_LAYOUTS:,}); set gpus instead of max_gpus, or some of tp, pp, cp, ep,"
            " micro_batch, zero and recompute"
        )
    grid = np.meshgrid(*(np.asarray(values, float) for values in sizes.values()), indexing="ij")
    column = {name: values.ravel() for name, values in zip(sizes, grid, strict=True)}
    replica_C = column["tp"] * column["pp"] * column["cp"]
    whole_C = np.mod(column["gpus"], replica_C) == 0
    if "dp" in inputs.pinned:
        whole_C &= column["gpus"] == replica_C * float(inputs.dp or 1)
    if "expert_tp" not in inputs.pinned:  # experts are whole, or divided as attention is
        whole_C &= (column["expert_tp"] == 1) | (column["expert_tp"] == column["tp"])
    if overlap:  # hides transfers of experts, in an interleaved pipeline or without one
        whole_C &= column["ep"] * column["expert_tp"] > 1
        whole_C &= (column["pp"] == 1) | (schedule == "interleaved")
    if schedule != "interleaved" and inputs.pipeline_schedule is None and schedule != "1f1b":
        whole_C &= column["pp"] > 1  # without a pipeline all schedules are 1f1b
    column = {name: values[whole_C] for name, values in column.items()}
    size = int(whole_C.sum())
    if not size:
        return None
    gpus_C = column.pop("gpus")
    column["dp"] = gpus_C / (column["tp"] * column["pp"] * column["cp"])
    parallel = inputs.sequence_parallel
    divided_C = column["tp"] > 1 if parallel is None else np.full(size, parallel)
    return replace(
        base.layouts,
        **{
            name: values.astype(np.int64) if name in ("zero", "recompute") else values
            for name, values in column.items()
        },
        sequence_parallel=divided_C,
        sequence_length=np.full(size, float(inputs.sequence_length)),
        global_batch=np.full(size, float(inputs.global_batch)),
    )


def _sizes(
    inputs: LayoutSearchInputs, base: TrainingQuestion, counts: tuple[int, ...], schedule: str
) -> dict[str, list[float]]:
    """Return the values of each size: the given one, or all that can divide model and GPUs."""
    network = base.network
    domain = base.systems[0].device.scale_up.domain_size
    most = max(counts)
    experts = [float(g.experts.num_experts) for g in network.layers if g.experts is not None]
    chunks = _chunks(network.num_layers, schedule)
    searched: dict[str, list[float]] = {
        "gpus": [float(count) for count in counts],
        "tp": _divisors(counts, min(domain, most)),
        "pp": _divisors(counts, min(network.num_layers, most)),
        "cp": _powers(min(max(inputs.sequence_length // LEAST_TOKENS, 1), most)),
        "ep": _divisors([int(least) for least in experts], most) if experts else [1.0],
        "expert_tp": _divisors(counts, min(domain, most)) if experts else [1.0],
        "vpp": chunks,
        "micro_batch": _powers(min(MOST_MICRO_BATCH, inputs.global_batch)),
        "zero": [float(level) for level in sorted(set(ZERO.values()))],
        "recompute": [float(level) for level in range(len(RECOMPUTE_LEVELS))],
    }
    return {**searched, **_pinned(inputs)}


def _pinned(inputs: LayoutSearchInputs) -> Mapping[str, list[float]]:
    """Return the sizes that are given."""
    given: dict[str, Any] = {name: value for name, value in inputs.pinned.items() if name != "dp"}
    given.pop("expert_overlap", None)
    if "zero" in given:
        given["zero"] = ZERO[given["zero"]]
    if "recompute" in given:
        given["recompute"] = RECOMPUTE_LEVELS.index(given["recompute"])
    return {name: [float(value)] for name, value in given.items()}


def _chunks(layers: int, schedule: str) -> list[float]:
    """Return chunks per stage; of several with equally many layers the fewest."""
    if schedule == "interleaved":
        least = {-(-layers // chunks): chunks for chunks in range(layers, 1, -1)}
        return sorted(float(chunks) for chunks in least.values())
    return [2.0] if schedule == "zb_v" else [1.0]


def _divisors(numbers: tuple[int, ...] | list[int], most: int) -> list[float]:
    """Return the divisors of any of some numbers, ascending."""
    found = {
        n for number in set(numbers) for n in range(1, min(number, most) + 1) if not number % n
    }
    return [float(n) for n in sorted(found)]


def _powers(most: int) -> list[float]:
    return [float(2**power) for power in range(int(most).bit_length())]


def _legal(
    base: TrainingQuestion,
    layouts: Layouts,
    schedule: str,
    inputs: LayoutSearchInputs,
    rejected: Counter[str],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the layouts that keep all rules, and count the others by the first they fail."""
    broken_C = np.zeros(layouts.size, np.bool_)
    for problem in layout_problems(base.network, layouts, schedule):
        rejected[problem.rule] += int(np.count_nonzero(problem.broken_C & ~broken_C))
        broken_C |= problem.broken_C
    refused_C = refused_by_recipe(inputs, layouts) & ~broken_C
    rejected[RECIPE] += int(np.count_nonzero(refused_C))
    return np.flatnonzero(~(broken_C | refused_C))


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
