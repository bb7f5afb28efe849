"""`search training`: the best layouts of a training job."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities, studies
from perfatlas.answer import Answer, AnsweredRun
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.hardware import resolve_system
from perfatlas.networks import is_graph
from perfatlas.reliability.fleet.closed_form import best_goodput
from perfatlas.scenario.fields import InputFields, complete_scenario, refuse_unused
from perfatlas.scenario.training_steps import (
    above_measured,
    check_experts,
    evidence_of,
    question_of,
    read_without_layout,
    refused_by_recipe,
    training_breakdown,
    training_results,
)
from perfatlas.training.layouts import RECOMPUTE_LEVELS
from perfatlas.training.step import training_steps
from perfatlas.verbs.train.groups import LayoutFailures, LayoutSearch
from perfatlas.verbs.train.metrics import PARTS
from perfatlas.vocabulary.fields import (
    ModelChoice,
    SystemChoice,
    TierChoice,
    TrainingBatch,
    TrainingEngineChoice,
    TrainingFormats,
    TrainingLayout,
    TrainingRecipe,
    fields_of,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps import TrainInputs
    from perfatlas.training.step import TrainingQuestion

MIN_S: Final = 1e-9
MAX_DOUBLINGS: Final = 10
MAX_DIFFERENCES: Final = 2
SIZES: Final = ("tp", "pp", "vpp", "cp", "dp", "ep", "expert_tp", "micro_batch")
PROOF: Final = (
    "layouts are priced in the order of a lower bound of the objective; those that are not priced"
    " have a bound worse than every layout shown"
)
ZERO_NAMES: Final = ("0", "1", "2", "3")


@dataclass(frozen=True, kw_only=True)
class TrainingSearch(AnsweredRun):
    """The answer to a search among training layouts."""

    found: studies.FoundLayouts

    @property
    def layouts_per_cpu_s(self) -> float:
        """Legal layouts over the CPU time of the search, which differs between runs [1/s]."""
        return self.found.space.size / max(self.found.cpu_s, MIN_S)

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All layouts that were priced and fit, as columns, in the order of their bounds.

        Cells are written as `train` reads them.
        """
        columns = {name: each.tolist() for name, each in studies.joined(self.found.columns).items()}
        for name in ("gpus", *SIZES, "sequence_length", "global_batch"):
            columns[name] = [int(size) for size in columns[name]]
        for name, words in (("zero", ZERO_NAMES), ("recompute", RECOMPUTE_LEVELS)):
            columns[name] = [words[level] for level in columns[name]]
        return columns


@signature_of("search training")
def search_training(
    *,
    progress: Callable[[int, int], None] | None = None,
    **fields: Any,  # noqa: ANN401 - checked against the table of fields
) -> TrainingSearch:
    """Return the best layouts of a training job.

    Args:
        progress: Called with the layouts done and the total.
        **fields: Fields of `perfatlas search training`. Sizes that are given are kept; all others
            are searched.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect, or no layout keeps the rules.
        InfeasibleError: No layout fits in memory, or none is fast enough; the message has the
            nearest.
        UnsupportedError: There is no data for the format, the schedule or the tier.

    Example:
        >>> from perfatlas.verbs.train import search_training
        >>> answer = search_training(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8,
        ...     global_batch=64)
        >>> best = answer.results["layouts"][0]
        >>> best["gpus"], best["memory_total_bytes"] < 85e9
        (8, True)
    """
    inputs = read_layout_search(fields)
    found = studies.find_layouts(inputs.layouts(), progress)
    if not found.space.families:
        raise _no_layout(inputs, found)
    if not found.best:
        raise _none_fits(inputs, found)
    return TrainingSearch(answer=_answer(inputs, found), found=found)


def _answer(inputs: LayoutSearchInputs, found: studies.FoundLayouts) -> Answer:
    rows = [_row(question, inputs) for question in found.best]
    shown = rows[: inputs.num_layouts]
    for number, row in enumerate(shown):
        row["why"] = _reason(row, rows[number + 1], inputs) if number + 1 < len(rows) else ""
    question = found.best[0]
    steps = training_steps(question)
    evidence = evidence_of(question, steps)
    fields = {n: f for n, f in verb_fields("search training").items() if n not in studies.SEARCHED}
    scenario = complete_scenario(fields, inputs, engine=question.engine.id)
    results: dict[str, Any] = {
        "layouts": shown,
        "legal_layouts": found.space.size,
        "priced_layouts": found.priced,
        "excluded_layouts": found.excluded,
        "rejected_layouts": studies.rejected_counts(found.space.rejected),
    }
    return Answer(
        command="search training",
        scenario={**scenario, **inputs.pinned},
        results=results,
        breakdown=training_breakdown(question, steps),
        warnings=above_measured(question, steps)[0],
        evidence=replace(evidence, assumptions=(*evidence.assumptions, PROOF)),
    )


def _row(question: TrainingQuestion, inputs: LayoutSearchInputs) -> dict[str, Any]:
    """Return a layout with its results, as `train` answers them."""
    layouts = question.layouts
    results = training_results(question, training_steps(question))[0]
    sizes = {name: int(getattr(layouts, name)[0]) for name in SIZES}
    effective = {}
    if inputs.objective == "effective_step_time_s":
        goodput = float(inputs.goodput(layouts.gpus)[0])
        effective = {"goodput": goodput, "effective_step_time_s": results["step_time_s"] / goodput}
    return {
        "gpus": results["gpus"],
        **sizes,
        "pipeline_schedule": question.schedule,
        "zero": ZERO_NAMES[int(layouts.zero[0])],
        "recompute": RECOMPUTE_LEVELS[int(layouts.recompute[0])],
        "expert_overlap": question.expert_overlap,
        **{
            f"{name}{end}": results[f"{name}{end}"]
            for name in ("step_time_s", "tokens_per_s_per_gpu", "mfu")
            for end in ("", "_low", "_high")
        },
        **effective,
        "memory_total_bytes": results["memory"]["total_bytes"],
        "memory_capacity_bytes": results["memory"]["capacity_bytes"],
        "waterfall": results["waterfall"],
    }


def _reason(
    row: Mapping[str, Any], following: Mapping[str, Any], inputs: LayoutSearchInputs
) -> str:
    """Return how the next layout is worse, and the parts of its step that make it so."""
    if inputs.objective == "gpus" and following["gpus"] != row["gpus"]:
        return f"the next layout needs {following['gpus']:,} GPUs"
    if inputs.objective == "effective_step_time_s" and following["gpus"] != row["gpus"]:
        own_s, other_s = (record["effective_step_time_s"] for record in (row, following))
        return (
            f"the next layout, on {following['gpus']:,} GPUs, takes {other_s / own_s - 1.0:.1%}"
            f" longer at a goodput of {following['goodput']:.1%}"
        )
    per_gpu = inputs.objective == "tokens_per_s_per_gpu"
    own, other = (
        {
            name: seconds * (record["gpus"] if per_gpu else 1.0)
            for name, seconds in record["waterfall"].items()
        }
        for record in (row, following)
    )
    total = sum(own.values())
    worse = (sum(other.values()) - total) / total
    changes = sorted(
        ((other[name] - own[name]) / total, name) for name in own if other[name] != own[name]
    )
    most = [change for change in reversed(changes) if change[0] > 0.0][:MAX_DIFFERENCES]
    least = [change for change in changes if change[0] < 0.0][:1]
    words = ", ".join(f"{PARTS[name]} {change:+.1%}" for change, name in (*most, *least))
    if worse <= 0.0:
        return "the next layout is equally fast, and needs as much memory or more"
    return f"the next layout is {worse:.1%} slower ({words} of the step)"


def _no_layout(
    inputs: LayoutSearchInputs, found: studies.FoundLayouts
) -> quantities.InvalidSpecError:
    """Return the error of a search without any legal layout."""
    rules = studies.rejected_text(found.space.rejected, METRICS["rejected_layouts"].parts)
    given = ", ".join(f"{name} = {value}" for name, value in inputs.pinned.items())
    return quantities.InvalidSpecError(
        f"no layout on {quantities.counted(inputs.most_gpus, 'GPU')}"
        + (f" with {given}" if given else "")
        + f" keeps the rules: {rules or 'no sizes multiply to the GPUs'}; change gpus or"
        " global_batch" + (", or leave out a given size" if given else "")
    )


def _none_fits(
    inputs: LayoutSearchInputs, found: studies.FoundLayouts
) -> quantities.InfeasibleError:
    """Return the error of a search whose layouts do not fit, with the GPUs on which one does."""
    slow = found.space.rejected["max_step_time_s"]
    on = quantities.counted(inputs.most_gpus, "GPU")
    if slow:
        message = (
            f"none of {found.space.size:,} layouts on {on} has a step within"
            f" max_step_time_s = {inputs.max_step_time_s:g} ({slow:,} fit in memory, or could)"
        )
    else:
        least = quantities.format_quantity(found.least_bytes, "B", exact=False)
        message = (
            f"none of {found.space.size:,} layouts on {on} fits in memory; the least that one needs"
            f" is {least} per GPU"
        )
    return quantities.InfeasibleError(message, advice=tuple(_more_gpus(inputs)))


def _more_gpus(inputs: LayoutSearchInputs) -> list[str]:
    """Return the fewest GPUs, by doubling, on which a layout fits and is fast enough."""
    asked = replace(inputs.layouts(), num_layouts=1)
    for doubling in range(1, MAX_DOUBLINGS + 1):
        gpus = inputs.most_gpus * 2**doubling
        found = studies.find_layouts(replace(asked, counts=(gpus,)))
        if found.best:
            name = "gpus" if inputs.gpus is not None else "max_gpus"
            return [f"set {name} = {gpus}"]
    if inputs.max_step_time_s is not None:
        return ["raise max_step_time_s, or use faster GPUs, a smaller model or a smaller batch"]
    return ["use a system with more memory, or a smaller model or batch"]


MIN_GOODPUT: Final = 1e-9  # a job with less makes no progress
_OF_LAYOUT: Final = ("gpus", "pipeline_schedule", "sequence_parallel", *studies.SEARCHED)
_OF_SEARCH: Final = (*LayoutSearch.__annotations__, *LayoutFailures.__annotations__)


# groups in reverse order: Python collects annotations from the last base on
class LayoutSearchInputs(
    InputFields,
    LayoutFailures,
    TrainingRecipe,
    TrainingFormats,
    TrainingLayout,
    TrainingBatch,
    LayoutSearch,
    TierChoice,
    TrainingEngineChoice,
    SystemChoice,
    ModelChoice,
):
    """A search among the layouts of a training job."""

    @property
    def pinned(self) -> dict[str, Any]:
        """The sizes that are given; the search varies the others."""
        given = self.fields_set.intersection(studies.SEARCHED)
        return {
            name: getattr(self, name)
            for name in studies.SEARCHED
            if name in given and getattr(self, name) is not None
        }

    @property
    def most_gpus(self) -> int:
        """The GPUs of the job, or the most it may have."""
        return self.gpus or self.max_gpus or 0

    def gpu_counts(self) -> tuple[int, ...]:
        """Return the numbers of GPUs to search: the given one, or powers of two up to the most.

        Jobs that failures leave no progress are left out where goodput is part of the objective.
        """
        most = self.most_gpus
        powers = () if self.gpus is not None else (2**power for power in range(most.bit_length()))
        counts = tuple(sorted({most, *powers}))
        if self.objective != "effective_step_time_s":
            return counts
        goodputs = self.goodput(counts)
        return tuple(
            gpus for gpus, goodput in zip(counts, goodputs, strict=True) if goodput > MIN_GOODPUT
        )

    def goodput(self, gpus: Sequence[int] | FloatArray) -> FloatArray:
        """Return the goodput of jobs at their best checkpoint interval (C,).

        Args:
            gpus: GPUs (C,).

        Source: `perfatlas goodput`, its exact form: nodes fail independently and without memory.
        """
        return best_goodput(
            gpus,
            devices=resolve_system(self.system).node.devices,
            node_mtbf_s=float(self.node_mtbf_s or 0.0),
            write_s=float(self.checkpoint_write_s or 0.0),
            restart_s=float(self.restart_s or 0.0),
        )

    def layouts(self) -> studies.LayoutQuestion:
        """Return the layouts to search, and what ranks them."""
        return studies.LayoutQuestion(
            base=question_of([self.on(1)]),
            counts=self.gpu_counts(),
            exact=self.gpus is not None,
            pinned=self.pinned,
            schedule=self.pipeline_schedule,
            sequence_parallel=self.sequence_parallel,
            sequence_length=self.sequence_length,
            global_batch=self.global_batch,
            objective=self.objective,
            goodput=self.goodput,
            refused=partial(refused_by_recipe, self),
            max_step_time_s=self.max_step_time_s or math.inf,
            num_layouts=self.num_layouts,
        )

    def on(self, gpus: int) -> TrainInputs:
        """Return the step of these fields without any parallelism."""
        left_out = (*_OF_LAYOUT, *_OF_SEARCH)
        given = {n: getattr(self, n) for n in self.fields_set if n not in left_out}
        return read_without_layout({**given, "dp": gpus, "vpp": 1})


def read_layout_search(fields: Mapping[str, Any]) -> LayoutSearchInputs:
    """Return the search of named fields.

    Args:
        fields: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: Failures leave a job no progress.
        UnsupportedError: There is no data for the format or the tier.
    """
    inputs = LayoutSearchInputs.read(fields)
    if is_graph(inputs.model):
        raise quantities.UnsupportedError(
            f"{inputs.model} is a graph of operators, whose layouts are not searched: ask train, or"
            " a table of it with micro_batch and zero, and ep and expert_tp of embedding tables"
        )
    if (inputs.gpus is None) == (inputs.max_gpus is None):
        both = f": gpus = {inputs.gpus} and max_gpus = {inputs.max_gpus} are both set"
        raise quantities.InvalidSpecError(
            "set gpus, the GPUs of the job, or max_gpus, the most it may have"
            + ("" if inputs.gpus is None else both)
        )
    if inputs.objective == "gpus" and inputs.max_gpus is None:
        raise quantities.InvalidSpecError(
            "objective = gpus finds the fewest GPUs that can run the step; set max_gpus, the most"
            " to search, instead of gpus"
        )
    _check_failures(inputs)
    check_experts(inputs)
    inputs.on(1)
    return inputs


def _check_failures(inputs: LayoutSearchInputs) -> None:
    """Refuse step time over goodput without failures or progress, and failures without it."""
    refuse_unused(vars(inputs), fields_of(LayoutFailures))
    missing = [name for name in LayoutFailures.__annotations__ if getattr(inputs, name) is None]
    if inputs.objective != "effective_step_time_s":
        return
    if missing:
        raise quantities.InvalidSpecError(
            f"objective = effective_step_time_s needs {', '.join(missing)}: the goodput of a job"
            " follows from failures of nodes, restarts and checkpoints"
        )
    if not inputs.gpu_counts():
        raise quantities.InfeasibleError(
            "jobs make no progress: goodput is 0 with node_mtbf_s ="
            f" {inputs.node_mtbf_s:g}, restart_s = {inputs.restart_s:g} and checkpoint_write_s ="
            f" {inputs.checkpoint_write_s:g} on {quantities.counted(inputs.gpus or 1, 'GPU')}.",
            advice=("raise node_mtbf_s, or lower restart_s or checkpoint_write_s",),
        )
