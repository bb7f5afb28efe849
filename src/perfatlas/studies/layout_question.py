"""The question of a search among training layouts: what is given, what is searched, what ranks.

Shape legend: C jobs.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.hardware import resolve_system
from perfatlas.networks import is_graph
from perfatlas.reliability.fleet.closed_form import best_goodput
from perfatlas.scenario.fields import InputFields, refuse_unused
from perfatlas.scenario.training_steps import (
    check_experts,
    question_of,
    read_without_layout,
)
from perfatlas.studies.layout_groups import LayoutFailures, LayoutSearch
from perfatlas.vocabulary import fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.training_steps import TrainInputs
    from perfatlas.training.step import TrainingQuestion

# sizes that are searched unless they are given
SEARCHED: Final[tuple[str, ...]] = (
    *("tp", "pp", "vpp", "cp", "dp", "ep", "expert_tp", "micro_batch", "zero", "recompute"),
    "expert_overlap",
)
MIN_GOODPUT: Final = 1e-9  # a job with less makes no progress
_OF_LAYOUT: Final = ("gpus", "pipeline_schedule", "sequence_parallel", *SEARCHED)
_OF_SEARCH: Final = (*LayoutSearch.__annotations__, *LayoutFailures.__annotations__)


# groups in reverse order: Python collects annotations from the last base on
class LayoutSearchInputs(
    InputFields,
    LayoutFailures,
    fields.TrainingRecipe,
    fields.TrainingFormats,
    fields.TrainingLayout,
    fields.TrainingBatch,
    LayoutSearch,
    fields.TierChoice,
    fields.TrainingEngineChoice,
    fields.SystemChoice,
    fields.ModelChoice,
):
    """A search among the layouts of a training job."""

    @cached_property
    def base(self) -> TrainingQuestion:
        """The job without any parallelism, which copies of the search share."""
        return question_of([self.on(1)])

    @property
    def pinned(self) -> dict[str, Any]:
        """The sizes that are given; the search varies the others."""
        given = self.fields_set.intersection(SEARCHED)
        return {
            name: getattr(self, name)
            for name in SEARCHED
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

    def on(self, gpus: int) -> TrainInputs:
        """Return the step of these fields without any parallelism."""
        left_out = (*_OF_LAYOUT, *_OF_SEARCH)
        given = {n: getattr(self, n) for n in self.fields_set if n not in left_out}
        return read_without_layout({**given, "dp": gpus, "vpp": 1})


def read_layout_search(given: Mapping[str, Any]) -> LayoutSearchInputs:
    """Return the search of named fields.

    Args:
        given: The fields as given; None means "not given".

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        InfeasibleError: Failures leave a job no progress.
        UnsupportedError: There is no data for the format or the tier.
    """
    inputs = LayoutSearchInputs.read(given)
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
    refuse_unused(vars(inputs), fields.fields_of(LayoutFailures))
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
