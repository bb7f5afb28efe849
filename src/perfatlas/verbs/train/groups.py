"""The groups of fields that `train` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    ModelChoice,
    SystemChoice,
    TierChoice,
    TrainingBatch,
    TrainingEngineChoice,
    TrainingFormats,
    TrainingLayout,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "train": (
        ModelChoice,
        SystemChoice,
        TrainingEngineChoice,
        TierChoice,
        TrainingBatch,
        TrainingLayout,
        TrainingFormats,
    ),
}
