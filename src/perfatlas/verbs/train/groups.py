"""The groups of fields that `train` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.studies import LayoutFailures, LayoutSearch
from perfatlas.vocabulary import fields

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
        fields.PowerTrace,
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
