"""The best layouts of a search: branch and bound over all legal ones.

Layouts are taken in the order of their lower bounds, some at a time, until the bound of the next
one exceeds the last of the best: no layout that is left can be better. Sharper bounds exclude some
of those that are taken; the others are priced.

Shape legend: C candidates of all families, N layouts priced together, C candidates, A values of a
size.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import node_power
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.scenario.training_steps import ZERO, refused_by_recipe
from perfatlas.studies.layout_question import SEARCHED
from perfatlas.studies.ranking import first_distinct, joined, rank_order
from perfatlas.studies.refusals import refused_by_rule
from perfatlas.training import step
from perfatlas.training.layouts import (
    RECOMPUTE_LEVELS,
    layout_rules,
    take_layouts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.studies.layout_question import LayoutSearchInputs
    from perfatlas.training.layouts import Layouts

    BoolArray = NDArray[np.bool_]


# sizes that are searched unless they are given
MIN_TOKENS: Final = 1024  # of a sequence on a context-parallel rank
MAX_MICRO_BATCH: Final = 16
# layouts of one family of schedules: more would not be held in memory at once
MAX_LAYOUTS: Final = 20_000_000
DUALPIPE: Final = "dualpipe"
FITS: Final = "fits_in_memory"
RECIPE: Final = "recipe"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Legal layouts that share a pipeline schedule."""

    question: step.TrainingQuestion
    costs: step.MicroBatchCosts

    @property
    def size(self) -> int:
        """Number of layouts."""
        return self.question.layouts.size

    def take(self, indices: IntArray) -> Family:
        """Return some of the layouts."""
        question = replace(
            self.question,
            layouts=take_layouts(self.question.layouts, indices),
            index_C=self.question.index_C[indices],
        )
        costs = replace(self.costs, index_C=self.costs.index_C[indices])
        return Family(question=question, costs=costs)


@dataclass(frozen=True, kw_only=True)
class Space:
    """The layouts of a search."""

    families: list[Family]
    rejected: Counter[str]  # Layouts that a rule refuses, by the first such rule
    # Lower bounds of the step time [s] and of the memory of the fullest GPU [bytes], its capacity
    # [bytes], and the GPUs of all layouts, by name (C,); empty without any
    bounds: dict[str, FloatArray]

    @property
    def size(self) -> int:
        """Number of legal layouts."""
        return sum(family.size for family in self.families)

    def parts(self, places_N: IntArray) -> Iterator[tuple[Family, IntArray]]:
        """Yield some layouts by family, and which of them are its own."""
        ends = np.cumsum([family.size for family in self.families])
        family_N = np.searchsorted(ends, places_N, side="right")
        for number in np.unique(family_N).tolist():
            family, own_N = self.families[number], np.flatnonzero(family_N == number)
            yield family.take(places_N[own_N] - (ends[number] - family.size)), own_N


def _space(query: LayoutSearchInputs) -> Space:
    """Return the layouts of a search."""
    rejected: Counter[str] = Counter()
    base = query.base
    legal: list[step.TrainingQuestion] = []
    for schedule, overlap in _schedules(query):
        layouts = _combined(query, schedule, overlap=overlap)
        if layouts is None:
            continue
        rules = [
            (rule.name, rule.refused(layouts)) for rule in layout_rules(base.network, schedule)
        ]
        rules.append((RECIPE, refused_by_recipe(query, layouts)))
        kept_C, refused = refused_by_rule(rules, layouts.size)
        rejected.update(refused)
        if kept_C.any():
            allowed = take_layouts(layouts, np.flatnonzero(kept_C))
            question = replace(base, schedule=schedule, expert_overlap=overlap)
            legal.append(
                replace(question, layouts=allowed, index_C=np.zeros(allowed.size, np.int64))
            )
    families = _priced_together(legal) if legal else []
    bounds = joined([_bounds(family) for family in families])
    return Space(families=families, rejected=rejected, bounds=bounds)


def _priced_together(questions: list[step.TrainingQuestion]) -> list[Family]:
    """Return families of questions, whose equal shapes are priced once."""
    layouts = joined([vars(question.layouts) for question in questions])
    ends = np.cumsum([question.layouts.size for question in questions])
    everything = replace(
        questions[0],
        layouts=type(questions[0].layouts)(**layouts),
        index_C=np.zeros(int(ends[-1]), np.int64),
    )
    costs = step.micro_batch_costs(everything)
    return [
        Family(question=question, costs=replace(costs, index_C=index_C))
        for question, index_C in zip(questions, np.split(costs.index_C, ends[:-1]), strict=True)
    ]


def _bounds(family: Family) -> dict[str, FloatArray]:
    """Return the bounds of a family, by name (C,)."""
    bounds = step.lower_bounds(family.question, family.costs)
    return {
        "step_s": bounds.step_s_C,
        "memory_bytes": bounds.memory_bytes_C,
        "capacity_bytes": family.question.devices().gather("memory_bytes"),
        "gpus": family.question.layouts.gpus,
    }


def _schedules(query: LayoutSearchInputs) -> Iterator[tuple[str, bool]]:
    """Yield the schedules of the engine, or the given one, with and without overlapped experts."""
    schedule_set, base = query.pipeline_schedule, query.base
    for schedule in (schedule_set,) if schedule_set else base.engine.schedules:
        if schedule == DUALPIPE or not base.network.has_experts:
            yield schedule, False
        elif "expert_overlap" in query.pinned:
            yield schedule, bool(query.pinned["expert_overlap"])
        else:
            yield from ((schedule, False), (schedule, True))


def _combined(query: LayoutSearchInputs, schedule: str, *, overlap: bool) -> Layouts | None:
    """Return all combinations of sizes whose product is a number of GPUs; None without any."""
    sizes = _sizes(query, schedule)
    number = int(np.prod([float(len(values)) for values in sizes.values()]))
    if number > MAX_LAYOUTS:
        raise InvalidSpecError(
            f"{number:,} layouts of schedule {schedule} are too many for one search (at most"
            f" {MAX_LAYOUTS:,}); set gpus instead of max_gpus, or some of tp, pp, cp, ep,"
            " micro_batch, zero and recompute"
        )
    grid = np.meshgrid(*(np.asarray(values, float) for values in sizes.values()), indexing="ij")
    column = {name: values.ravel() for name, values in zip(sizes, grid, strict=True)}
    replica_C = column["tp"] * column["pp"] * column["cp"]
    whole_C = np.mod(column["gpus"], replica_C) == 0
    if "dp" in query.pinned:
        whole_C &= column["gpus"] == replica_C * float(query.pinned["dp"])
    if "expert_tp" not in query.pinned:  # experts are whole, or divided as attention is
        whole_C &= (column["expert_tp"] == 1) | (column["expert_tp"] == column["tp"])
    if overlap:  # hides transfers of experts, in an interleaved pipeline or without one
        whole_C &= column["ep"] * column["expert_tp"] > 1
        whole_C &= (column["pp"] == 1) | (schedule == "interleaved")
    if schedule != "interleaved" and query.pipeline_schedule is None and schedule != "1f1b":
        whole_C &= column["pp"] > 1  # without a pipeline all schedules are 1f1b
    column = {name: values[whole_C] for name, values in column.items()}
    size = int(whole_C.sum())
    if not size:
        return None
    gpus_C = column.pop("gpus")
    column["dp"] = gpus_C / (column["tp"] * column["pp"] * column["cp"])
    parallel = query.sequence_parallel
    divided_C = column["tp"] > 1 if parallel is None else np.full(size, parallel)
    return replace(
        query.base.layouts,
        **{
            name: values.astype(np.int64) if name in ("zero", "recompute") else values
            for name, values in column.items()
        },
        sequence_parallel=divided_C,
        sequence_length=np.full(size, float(query.sequence_length)),
        global_batch=np.full(size, float(query.global_batch)),
    )


def _sizes(query: LayoutSearchInputs, schedule: str) -> dict[str, list[float]]:
    """Return the values of each size: the given one, or all that can divide model and GPUs."""
    network, counts = query.base.network, query.gpu_counts()
    domain = query.base.systems[0].device.scale_up.domain_size
    most = max(counts, default=1)
    experts = [float(g.experts.num_experts) for g in network.layers if g.experts is not None]
    chunks = _chunks(network.num_layers, schedule)
    searched: dict[str, list[float]] = {
        "gpus": [float(count) for count in counts],
        "tp": _divisors(counts, min(domain, most)),
        "pp": _divisors(counts, min(network.num_layers, most)),
        "cp": _powers(min(max(query.sequence_length // MIN_TOKENS, 1), most)),
        "ep": _divisors([int(least) for least in experts], most) if experts else [1.0],
        "expert_tp": _divisors(counts, min(domain, most)) if experts else [1.0],
        "vpp": chunks,
        "micro_batch": _powers(min(MAX_MICRO_BATCH, query.global_batch)),
        "zero": [float(level) for level in sorted(set(ZERO.values()))],
        "recompute": [float(level) for level in range(len(RECOMPUTE_LEVELS))],
    }
    pinned: dict[str, Any] = {name: value for name, value in query.pinned.items() if name != "dp"}
    pinned.pop("expert_overlap", None)
    if "zero" in pinned:
        pinned["zero"] = ZERO[pinned["zero"]]
    if "recompute" in pinned:
        pinned["recompute"] = RECOMPUTE_LEVELS.index(pinned["recompute"])
    return {**searched, **{name: [float(value)] for name, value in pinned.items()}}


def _chunks(layers: int, schedule: str) -> list[float]:
    """Return chunks per stage; of several with equally many layers the fewest."""
    if schedule == "interleaved":
        least = {-(-layers // chunks): chunks for chunks in range(layers, 1, -1)}
        return sorted(float(chunks) for chunks in least.values())
    return [2.0] if schedule == "zb_v" else [1.0]


def _divisors(numbers: tuple[int, ...] | list[int], most: int) -> list[float]:
    """Return the divisors of any of some numbers, ascending."""
    divisors = {
        n for number in set(numbers) for n in range(1, min(number, most) + 1) if not number % n
    }
    return [float(n) for n in sorted(divisors)]


def _powers(most: int) -> list[float]:
    return [float(2**power) for power in range(int(most).bit_length())]


AT_ONCE: Final = 4096  # layouts whose bounds are sharpened together
PRICED_AT_ONCE: Final = 256
# choices of which the answer shows the best for each combination of all other sizes
CHOICES: Final = ("vpp", "micro_batch", "zero", "recompute")
SLOW_STEP: Final = "max_step_time_s"
POWERFUL: Final = "max_job_power_w"
RANKED: Final = ("place", "score")  # columns of priced layouts that are not answered


@dataclass(kw_only=True)
class FoundLayouts:
    """What a search found."""

    # The best layout of each combination of sizes in which answers differ, best first, each alone
    best: list[step.TrainingQuestion] = field(default_factory=list)
    space: Space
    priced: int = 0
    excluded: int = 0
    cpu_s: float = 0.0  # CPU time [s]
    least_bytes: float = math.nan  # What the smallest layout needs per GPU, where none fits [bytes]
    # All priced layouts that fit, as columns
    columns: list[dict[str, Any]] = field(default_factory=list)


def _score_of(query: LayoutSearchInputs, step_s: FloatArray, gpus: FloatArray) -> FloatArray:
    """Return the objective of steps [s], or of their bounds, as pairs; smaller is better (C, 2)."""
    first = {"gpus": gpus, "tokens_per_s_per_gpu": step_s * gpus}.get(query.objective, step_s)
    if query.objective == "effective_step_time_s":
        distinct, which_C = np.unique(gpus, return_inverse=True)
        goodput_C = query.goodput(distinct)[which_C]
        never_C = np.full_like(step_s, np.inf)  # without progress
        first = np.divide(step_s, goodput_C, out=never_C, where=goodput_C > 0.0)
    return np.stack([first, step_s], axis=1)


def find_layouts(
    query: LayoutSearchInputs,
    progress: Callable[[int, int], None] | None = None,
) -> FoundLayouts:
    """Return the best layouts.

    Args:
        progress: Called with the layouts done and the total.

    Raises:
        InvalidSpecError: The sizes have more combinations than can be held.
    """
    started = time.process_time()
    space = _space(query)
    search = FoundLayouts(space=space)
    if space.families:
        _search(search, query, progress)
        if not search.best:
            search.least_bytes = _least_bytes(space)
    search.cpu_s = time.process_time() - started
    return search


def _search(
    search: FoundLayouts,
    query: LayoutSearchInputs,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Price layouts in the order of their bounds until no other can be among the best.

    Those that the bounds leave are priced in the order of sharper ones.
    """
    space, bounds = search.space, search.space.bounds
    fits_C = bounds["memory_bytes"] <= bounds["capacity_bytes"]
    open_C = np.flatnonzero(_counted(space.rejected, query, fits_C, bounds["step_s"]))
    score_C2 = _score_of(query, bounds["step_s"][open_C], bounds["gpus"][open_C])
    best: dict[str, Any] = {}
    wanted = query.num_layouts + 1

    def last() -> tuple[float, ...] | None:
        """Return the score of the last of the wanted layouts; None if there are fewer."""
        scores = best.get("score", ())
        return tuple(scores[wanted - 1]) if len(scores) >= wanted else None

    for number, some in enumerate(best_first(score_C2, last, AT_ONCE)):
        if progress is not None:
            progress(space.size - open_C.size + number * AT_ONCE, space.size)
        some_N = open_C[some]
        sharper_N2 = np.empty((some_N.size, 2))
        for family, own_N in space.parts(some_N):
            step_s_N = step.sharper_step_bounds(family.question, family.costs)
            sharper_N2[own_N] = _score_of(query, step_s_N, family.question.layouts.gpus)
        for priced in best_first(sharper_N2, last, PRICED_AT_ONCE):
            places = some_N[priced]
            parts = [
                _priced(space.rejected, family, query, places[own_N])
                for family, own_N in space.parts(places)
            ]
            best = _best_of([best, *parts] if best else parts, query)
            search.columns += [{n: part[n] for n in part if n not in RANKED} for part in parts]
            search.priced += priced.size
    search.excluded = int(open_C.size) - search.priced
    search.best = [
        family.question
        for place in best.get("place", ())[:wanted]
        for family, _ in space.parts(np.array([place]))
    ]


def _counted(
    rejected: Counter[str],
    query: LayoutSearchInputs,
    fits_N: BoolArray,
    step_s_N: FloatArray,
    job_w_N: FloatArray | None = None,
) -> BoolArray:
    """Return the layouts that fit, are fast enough and draw no more (N,), and count the others."""
    slow_N = step_s_N > (query.max_step_time_s or np.inf)
    rules = [(FITS, ~fits_N), (SLOW_STEP, slow_N)]
    if job_w_N is not None:
        rules.append((POWERFUL, job_w_N > (query.max_job_power_w or np.inf)))
    kept_N, refused = refused_by_rule(rules, fits_N.size)
    rejected.update(refused)
    return kept_N


def _priced(
    rejected: Counter[str], family: Family, query: LayoutSearchInputs, places_N: IntArray
) -> dict[str, Any]:
    """Return the layouts of a family that fit and are fast enough, as columns; count the others."""
    question = family.question
    steps = step.training_steps(question, family.costs)
    job_w_C = None if query.max_job_power_w is None else _job_power_w(question, steps)
    kept = np.flatnonzero(_counted(rejected, query, steps.memory.fits, steps.step_s_C, job_w_C))
    layouts, step_s = take_layouts(question.layouts, kept), steps.step_s_C[kept]
    return {
        "gpus": layouts.gpus,
        **vars(layouts),
        "pipeline_schedule": np.full(kept.size, question.schedule, dtype=object),
        "expert_overlap": np.full(kept.size, question.expert_overlap),
        "step_time_s": step_s,
        "memory_total_bytes": steps.memory.total_bytes[kept],
        "place": places_N[kept],
        "score": _score_of(query, step_s, layouts.gpus),
    }


def _job_power_w(question: step.TrainingQuestion, steps: step.TrainingSteps) -> FloatArray:
    """Return the mean AC power of the nodes of each job (C,) [W].

    Raises:
        UnsupportedError: The power of the device or of its nodes is not known.
    """
    system = question.systems[0]
    node = node_power(system.node)
    board_w_C = steps.power.power_w(steps.step_s_C)
    each_w_C = node.node_w(0.0) / node.devices + node.factor * board_w_C
    job_w_C: FloatArray = question.layouts.gpus * each_w_C
    if np.isnan(job_w_C).any():
        raise UnsupportedError(
            f"max_job_power_w: the power of {system.name} or of its nodes is not predicted; leave"
            " out max_job_power_w"
        )
    return job_w_C


def _best_of(parts: Sequence[dict[str, Any]], query: LayoutSearchInputs) -> dict[str, Any]:
    """Return the best layout of each combination of sizes in which answers differ, best first."""
    columns = joined(parts)
    first, second = columns["score"].T
    order = rank_order(first < np.inf, -first, second, columns["memory_total_bytes"])
    best = first_distinct(order, *(columns[name] for name in _identity(query)))
    return {name: values[best] for name, values in columns.items()}


def _identity(query: LayoutSearchInputs) -> tuple[str, ...]:
    """Return the sizes in which layouts of the answer differ."""
    names = ("gpus", *vars(query.base.layouts))
    sizes = tuple(name for name in names if name not in CHOICES)
    follow = ("dp",) if query.base.network.has_experts else ("dp", "ep", "expert_tp")
    free = set(SEARCHED).intersection(sizes).difference(query.pinned, follow)
    return sizes if free or not query.gpus is not None else names


def _least_bytes(space: Space) -> float:
    """Return the least memory that one of the layouts with the lowest bounds needs [bytes]."""
    beyond_C = space.bounds["memory_bytes"] - space.bounds["capacity_bytes"]
    parts = space.parts(np.argsort(beyond_C, kind="stable")[:AT_ONCE])
    return min(
        float(step.training_steps(family.question, family.costs).memory.total_bytes.min())
        for family, _ in parts
    )


def best_first(
    bounds: FloatArray, last: Callable[[], tuple[float, ...] | None], at_once: int
) -> Iterator[IntArray]:
    """Yield candidates in the order of their bounds, until none can be among the best.

    Args:
        bounds: Lower bounds of two objectives of which the smaller is better, the first one first
            (N, 2).
        last: Returns the objectives of the last of the best so far, None while there are too few.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.layout_search import best_first
        >>> bounds = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 9.0], [2.0, 1.0]])
        >>> [some.tolist() for some in best_first(bounds, lambda: (2.0, 5.0), 2)]
        [[1, 3]]
    """
    order_N = np.lexsort(bounds.T[::-1])
    for start in range(0, order_N.size, at_once):
        some_N = order_N[start : start + at_once]
        worst = last()
        if worst is not None:
            first_N, second_N = bounds[some_N].T
            below_N = (first_N == worst[0]) & (second_N <= worst[1])
            some_N = some_N[(first_N < worst[0]) | below_N]
            if not some_N.size:
                return
        yield some_N
