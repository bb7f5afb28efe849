"""The groups of fields that `train` is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.vocabulary import fields

MAX_LAYOUTS: Final = 100


@fields.group("Search", 1)
class LayoutSearch:
    """What the best layout is."""

    max_gpus: Annotated[int, fields.Number(at_least=1, at_most=131_072)] | None = None
    objective: Literal["step_time_s", "tokens_per_s_per_gpu", "gpus", "effective_step_time_s"] = (
        "step_time_s"
    )
    max_step_time_s: Annotated[float, fields.Number(unit="s", above=0.0)] | None = None
    num_layouts: Annotated[int, fields.Number(at_least=1, at_most=MAX_LAYOUTS)] = 5


WITH_FAILURES: Final = fields.Equals("objective", "effective_step_time_s")


@fields.group("Failures", 5)
class LayoutFailures:
    """Interruptions of the job, for step time over goodput."""

    node_mtbf_s: Annotated[
        fields.Duration | None, replace(fields.NODE_MTBF, needs=WITH_FAILURES)
    ] = None
    restart_s: Annotated[fields.Duration | None, replace(fields.RESTART, needs=WITH_FAILURES)] = (
        None
    )
    checkpoint_write_s: Annotated[fields.Duration | None, WITH_FAILURES] = None


# what `search training` does with fields that are not given
_SEARCHED: Final = ("tp", "pp", "cp", "vpp", "micro_batch", "zero", "recompute")
_OF_EXPERTS: Final = ("ep", "expert_tp", "expert_overlap")
DEFAULTS: Final[dict[str, dict[str, str]]] = {
    "search training": {
        **dict.fromkeys((*_SEARCHED, *_OF_EXPERTS), "searched"),
        "dp": "gpus / (tp x pp x cp)",
        "pipeline_schedule": "those of the engine are searched",
        "gpus": "max_gpus",
    }
}
QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "train": (
        fields.ModelChoice,
        fields.SystemChoice,
        fields.TrainingEngineChoice,
        fields.TierChoice,
        fields.ClockChoice,
        fields.TrainingBatch,
        fields.TrainingLayout,
        fields.UnevenStages,
        fields.TrainingFormats,
        fields.TrainingRecipe,
        fields.TrainingCheckpoints,
        fields.TrainingPower,
    ),
    "search training": (
        fields.ModelChoice,
        fields.SystemChoice,
        fields.TrainingEngineChoice,
        fields.TierChoice,
        LayoutSearch,
        fields.TrainingBatch,
        fields.TrainingLayout,
        fields.TrainingFormats,
        LayoutFailures,
        fields.TrainingRecipe,
    ),
}
