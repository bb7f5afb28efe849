"""Training steps of named fields, priced; one step is a table of one row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perfatlas.cost import price_problem, prices_of
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.training_steps.advice import does_not_fit
from perfatlas.scenario.training_steps.evidence import evidence_of, training_warnings
from perfatlas.scenario.training_steps.power import broken_limit, power_rows
from perfatlas.scenario.training_steps.question import question_of, read_training
from perfatlas.scenario.training_steps.results import (
    checkpoint_results,
    item_results,
    training_results,
)
from perfatlas.training.layouts import layout_problems
from perfatlas.training.step import training_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.answer import Evidence
    from perfatlas.cost import GpuPrice
    from perfatlas.scenario.training_steps.inputs import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """One training step that fits in memory and keeps its power limit."""

    inputs: TrainInputs
    question: TrainingQuestion  # The candidates of the steps that are priced together
    steps: TrainingSteps
    results: Mapping[str, Any]  # Its results by name, as `train` answers them
    warnings: tuple[str, ...]  # What to know before relying on it

    def evidence(self) -> Evidence:
        """Return what the results of a step that is priced alone rest on."""
        found, price = evidence_of(self.question, self.steps), self.price
        assumptions = (*found.assumptions, price.note)
        return replace(found, assumptions=assumptions, sources=(*found.sources, *price.sources))

    @property
    def price(self) -> GpuPrice:
        """The price of its GPUs."""
        system, train_inputs = resolve_system(self.inputs.system).name, self.inputs
        prices, _ = prices_of(
            [system],
            [train_inputs.usd_per_gpu_hour],
            [train_inputs.pue],
            [train_inputs.usd_per_kwh],
        )
        return prices[0]


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
    (found,) = training_rows([read_training(fields)])
    if isinstance(found, PerfatlasError):
        raise found
    return found


def training_rows(inputs: Sequence[TrainInputs]) -> list[TrainingStep | PerfatlasError]:
    """Return the training steps of questions that are priced together, or why there is none.

    Args:
        inputs: Questions of one schedule that differ in sizes, GPUs, facility and storage alone.
    """
    question = question_of(inputs)
    found: dict[int, TrainingStep | PerfatlasError] = {}
    for problem in layout_problems(question.network, question.layouts, question.schedule):
        for at in problem.broken_C.nonzero()[0].tolist():
            found.setdefault(at, InvalidSpecError(problem.sentence(at)))
    problems = {
        given: price_problem(given)
        for given in {train_inputs.usd_per_gpu_hour for train_inputs in inputs}
    }
    for at, train_inputs in enumerate(inputs):
        if (unread := problems[train_inputs.usd_per_gpu_hour]) is not None:
            found.setdefault(at, unread)
    legal = [at for at in range(len(inputs)) if at not in found]
    if legal:
        if found:
            question = question_of([inputs[at] for at in legal])
        found |= zip(legal, _priced([inputs[at] for at in legal], question), strict=True)
    return [found[at] for at in range(len(inputs))]


def _priced(
    inputs: Sequence[TrainInputs], question: TrainingQuestion
) -> Iterator[TrainingStep | PerfatlasError]:
    """Yield the training steps of legal layouts, or the limit that each does not keep."""
    steps = training_steps(question)
    warnings = training_warnings(inputs, question, steps)
    power, results = power_rows(inputs, question, steps), training_results(question, steps)
    for at, train_inputs in enumerate(inputs):
        if steps.memory.too_large[at]:
            yield does_not_fit(train_inputs, question, steps.memory, at)
        elif (error := broken_limit(question, steps, at)) is not None:
            yield error
        else:
            told = results[at] | power[at] | checkpoint_results(train_inputs, question, steps, at)
            item = question.network.item
            found = TrainingStep(
                inputs=train_inputs,
                question=question,
                steps=steps,
                results=item_results(item, told) if item else told,
                warnings=warnings[at],
            )
            stale = found.price.warning
            yield replace(found, warnings=(*warnings[at], stale)) if stale else found
