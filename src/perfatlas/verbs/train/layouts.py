"""`search training`: the best layouts of a training job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities, studies
from perfatlas.answer import Answer, AnsweredRun
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.training_steps import (
    above_measured,
    evidence_of,
    training_breakdown,
    training_results,
)
from perfatlas.training.layouts import RECOMPUTE_LEVELS
from perfatlas.training.step import training_steps
from perfatlas.verbs.train.metrics import PARTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    inputs = studies.read_layout_search(fields)
    found = studies.find_layouts(inputs, progress)
    if not found.space.families:
        raise _no_layout(inputs, found)
    if not found.best:
        raise _none_fits(inputs, found)
    return TrainingSearch(answer=_answer(inputs, found), found=found)


def _answer(inputs: studies.LayoutSearchInputs, found: studies.FoundLayouts) -> Answer:
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


def _row(question: TrainingQuestion, inputs: studies.LayoutSearchInputs) -> dict[str, Any]:
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
    row: Mapping[str, Any], following: Mapping[str, Any], inputs: studies.LayoutSearchInputs
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
    inputs: studies.LayoutSearchInputs, found: studies.FoundLayouts
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
    inputs: studies.LayoutSearchInputs, found: studies.FoundLayouts
) -> quantities.InfeasibleError:
    """Return the error of a search whose layouts do not fit, with the GPUs on which one does."""
    slow, powerful = (found.space.rejected[n] for n in ("max_step_time_s", "max_job_power_w"))
    on = quantities.counted(inputs.most_gpus, "GPU")
    if powerful:
        message = (
            f"none of {found.space.size:,} layouts on {on} draws at most max_job_power_w ="
            f" {inputs.max_job_power_w:g} W ({powerful:,} are above it)"
        )
        advice = ("raise max_job_power_w, or set max_gpus to search fewer GPUs",)
        return quantities.InfeasibleError(message, advice=advice)
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


def _more_gpus(inputs: studies.LayoutSearchInputs) -> list[str]:
    """Return the fewest GPUs, by doubling, on which a layout fits and is fast enough."""
    for doubling in range(1, MAX_DOUBLINGS + 1):
        gpus = inputs.most_gpus * 2**doubling
        if studies.find_layouts(inputs.changed(gpus=gpus, num_layouts=1)).best:
            name = "gpus" if inputs.gpus is not None else "max_gpus"
            return [f"set {name} = {gpus}"]
    if inputs.max_step_time_s is not None:
        return ["raise max_step_time_s, or use faster GPUs, a smaller model or a smaller batch"]
    return ["use a system with more memory, or a smaller model or batch"]
