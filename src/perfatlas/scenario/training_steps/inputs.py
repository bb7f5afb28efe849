"""The fields of a training step."""

from __future__ import annotations

from perfatlas.scenario.fields import InputFields
from perfatlas.vocabulary.fields import (
    ClockChoice,
    ModelChoice,
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
)


# groups in reverse order: Python collects annotations from the last base on
class TrainInputs(
    InputFields,
    TrainingPower,
    TrainingCheckpoints,
    TrainingRecipe,
    TrainingFormats,
    UnevenStages,
    TrainingLayout,
    TrainingBatch,
    ClockChoice,
    TierChoice,
    TrainingEngineChoice,
    SystemChoice,
    ModelChoice,
):
    """A training step."""
