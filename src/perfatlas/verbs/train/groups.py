"""The groups of fields that `train` is asked."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from perfatlas.vocabulary.fields import (
    ModelChoice,
    Number,
    Row,
    SystemChoice,
    TierChoice,
    TrainingBatch,
    TrainingEngineChoice,
    TrainingFormats,
    TrainingLayout,
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
        ),
    ] = None
    objective: Annotated[
        Literal["step_time_s", "tokens_per_s_per_gpu", "gpus"],
        Row("Metric that ranks the layouts: step time, tokens/s per GPU, or fewest GPUs."),
    ] = "step_time_s"
    max_step_time_s: Annotated[
        Annotated[float, Number(unit="s", above=0.0)] | None,
        Row("Maximum step time of a layout.", default="none"),
    ] = None
    num_layouts: Annotated[
        Annotated[int, Number(at_least=1, at_most=MOST_LAYOUTS)],
        Row("Number of layouts in the answer, best first, with different parallel sizes."),
    ] = 5


QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "train": (
        ModelChoice,
        SystemChoice,
        TrainingEngineChoice,
        TierChoice,
        TrainingBatch,
        TrainingLayout,
        UnevenStages,
        TrainingFormats,
        TrainingRecipe,
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
        TrainingRecipe,
    ),
}
