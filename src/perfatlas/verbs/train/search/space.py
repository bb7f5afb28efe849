"""All layouts of a search, by pipeline schedule: those that keep the rules, and counts of others.

Shape legend: C candidates, A values of a size.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.training_steps import ZERO, question_of, refused_by_recipe
from perfatlas.training.layouts import RECOMPUTE_LEVELS, layout_problems, take_layouts
from perfatlas.training.step import lower_bounds, micro_batch_costs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.step import MicroBatchCosts, TrainingQuestion
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
