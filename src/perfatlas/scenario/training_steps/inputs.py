"""The fields of a training step."""

from __future__ import annotations

from perfatlas.scenario.fields import InputFields
from perfatlas.vocabulary import fields


# groups in reverse order: Python collects annotations from the last base on
class TrainInputs(
    InputFields,
    fields.TrainingPower,
    fields.TrainingCheckpoints,
    fields.TrainingRecipe,
    fields.TrainingFormats,
    fields.UnevenStages,
    fields.TrainingLayout,
    fields.TrainingBatch,
    fields.ClockChoice,
    fields.TierChoice,
    fields.TrainingEngineChoice,
    fields.SystemChoice,
    fields.ModelChoice,
):
    """A training step."""
