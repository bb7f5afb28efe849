"""The training step of named fields, priced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.training_steps.advice import does_not_fit
from perfatlas.scenario.training_steps.evidence import evidence_of
from perfatlas.scenario.training_steps.power import broken_limit, power_rows
from perfatlas.scenario.training_steps.question import question_of, read_training
from perfatlas.scenario.training_steps.results import checkpoint_results, training_results
from perfatlas.training.layouts import layout_problems
from perfatlas.training.step import training_steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Evidence
    from perfatlas.scenario.training_steps.inputs import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """One training step that fits in memory and keeps its power limit.

    Args:
        inputs: The fields.
        question: The candidate.
        steps: Its step.
        results: Its results by name, as `train` answers them.
    """

    inputs: TrainInputs
    question: TrainingQuestion
    steps: TrainingSteps
    results: Mapping[str, Any]

    def evidence(self) -> Evidence:
        """Return what the results rest on."""
        return evidence_of(self.question, self.steps)


def training_step(fields: Mapping[str, Any]) -> TrainingStep:
    """Return the training step of named fields.

    Args:
        fields: Fields of `perfatlas train`.

    Raises:
        InvalidSpecError: A field is missing, unknown or out of its bounds, or the layout does not
            divide the model, the batch or the GPUs.
        InfeasibleError: The step does not fit in the memory of a GPU.
        UnsupportedError: There is no data for the format, the schedule or the tier.
    """
    inputs = read_training(fields)
    question = question_of([inputs])
    for problem in layout_problems(question.network, question.layouts, question.schedule):
        raise InvalidSpecError(problem.sentence(0))
    steps = training_steps(question)
    if not steps.memory.fits[0]:
        raise does_not_fit(inputs, question, steps.memory, 0)
    if (error := broken_limit(question, steps, 0)) is not None:
        raise error
    results = (
        training_results(question, steps)[0]
        | power_rows([inputs], question, steps)[0]
        | checkpoint_results(inputs, question, steps, 0)
    )
    return TrainingStep(inputs=inputs, question=question, steps=steps, results=results)
