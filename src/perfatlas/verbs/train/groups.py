"""The groups of fields that `train` is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import (
    NODE_MTBF,
    RESTART,
    ClockChoice,
    Duration,
    Equals,
    ModelChoice,
    Number,
    Row,
    SystemChoice,
    TierChoice,
    TrainingBatch,
    TrainingCheckpoints,
    TrainingEngineChoice,
    TrainingFormats,
    TrainingLayout,
    TrainingPower,
    TrainingRecipe,
    UnevenStages,
    group,
)

MOST_LAYOUTS: Final = 100


@group("Search", 1)
class LayoutSearch:
    """What the best layout is."""

    max_gpus: Annotated[
        Annotated[int, Number(at_least=1, at_most=131_072)] | None,
        Row(
            "Maximum GPUs of the job, instead of gpus: powers of two up to it are searched.",
            default="gpus",
            common=True,
        ),
    ] = None
    objective: Annotated[
        Literal["step_time_s", "tokens_per_s_per_gpu", "gpus", "effective_step_time_s"],
        Row(
            "Metric that ranks the layouts: step time, tokens/s per GPU, fewest GPUs, or step time"
            " over goodput (effective_step_time_s).",
            common=True,
        ),
    ] = "step_time_s"
    max_step_time_s: Annotated[
        Annotated[float, Number(unit="s", above=0.0)] | None,
        Row("Maximum step time of a layout.", default="none"),
    ] = None
    num_layouts: Annotated[
        Annotated[int, Number(at_least=1, at_most=MOST_LAYOUTS)],
        Row("Number of layouts in the answer, best first, with different parallel sizes."),
    ] = 5


WITH_FAILURES: Final = Equals("objective", "effective_step_time_s")


@group("Failures", 5)
class LayoutFailures:
    """Interruptions of the job, for step time over goodput."""

    node_mtbf_s: Annotated[Duration | None, replace(NODE_MTBF, needs=WITH_FAILURES)] = None
    restart_s: Annotated[Duration | None, replace(RESTART, needs=WITH_FAILURES)] = None
    checkpoint_write_s: Annotated[
        Duration | None, Row("Blocking checkpoint write time.", needs=WITH_FAILURES, common=True)
    ] = None


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
        ModelChoice,
        SystemChoice,
        TrainingEngineChoice,
        TierChoice,
        ClockChoice,
        TrainingBatch,
        TrainingLayout,
        UnevenStages,
        TrainingFormats,
        TrainingRecipe,
        TrainingCheckpoints,
        TrainingPower,
    ),
    "search training": (
        ModelChoice,
        SystemChoice,
        TrainingEngineChoice,
        TierChoice,
        LayoutSearch,
        TrainingBatch,
        TrainingLayout,
        TrainingFormats,
        LayoutFailures,
        TrainingRecipe,
    ),
}
