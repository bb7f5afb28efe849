"""`train`: the time of a training step, its memory and where the time goes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import Answered, answer_columns, complete_scenario, unused_warnings
from perfatlas.scenario.training_steps import (
    FACILITY,
    RANKS,
    SIZES,
    STORAGE,
    broken_limit,
    checkpoint_results,
    data_parallel,
    does_not_fit,
    power_remarks,
    power_rows,
    question_of,
    read_training,
    schedule_of,
    training_breakdown,
    training_results,
    training_step,
)
from perfatlas.training.layouts import layout_problems
from perfatlas.training.step import training_steps
from perfatlas.verbs.train.metrics import PARTS
from perfatlas.verbs.train.remarks import above_measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.training_steps import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

__all__ = ["PARTS", "train", "train_columns"]

VARYING: Final = SIZES + RANKS + FACILITY + STORAGE  # of rows that are priced together


@signature_of("train")
def train(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of a training step, its waterfall, utilization and memory.

    Args:
        **fields: Fields of `perfatlas train`.

    Raises:
        InvalidSpecError: A field is missing, unknown or out of its bounds, or the layout does not
            divide the model, the batch or the GPUs.
        InfeasibleError: The step does not fit in the memory of a GPU.
        UnsupportedError: There is no data for the format, the schedule or the tier.

    Example:
        >>> from perfatlas.verbs.train import train
        >>> answer = train(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8, tp=2,
        ...     sequence_length=4096, global_batch=64)
        >>> parts = answer.results["waterfall"]
        >>> abs(sum(parts.values()) / answer.results["step_time_s"] - 1) < 1e-9
        True
    """
    step = training_step(fields)
    inputs, question, steps = step.inputs, step.question, step.steps
    return Answer(
        command="train",
        scenario=_scenario(inputs, question),
        results=step.results,
        breakdown=training_breakdown(question, steps),
        warnings=_warnings([inputs], question, steps)[0],
        evidence=step.evidence(),
    )


def train_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of training steps.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return answer_columns(table, read_training, _rows, varying=VARYING, alike=schedule_of)


def _rows(inputs: Sequence[TrainInputs]) -> Answered:
    """Return the answers of questions of one schedule that differ in `VARYING` alone."""
    from perfatlas.answer import flat_results

    asked = question_of(inputs)
    found: dict[int, tuple[dict[str, Any], Sequence[str]] | PerfatlasError] = {}
    for problem in layout_problems(asked.network, asked.layouts, asked.schedule):
        for at in problem.broken_C.nonzero()[0].tolist():
            found.setdefault(at, InvalidSpecError(problem.sentence(at)))
    valid = [at for at in range(len(inputs)) if at not in found]
    if valid:
        question = question_of([inputs[at] for at in valid])
        steps = training_steps(question)
        power = power_rows([inputs[at] for at in valid], question, steps)
        warnings = _warnings([inputs[at] for at in valid], question, steps)
        for place, (at, row) in enumerate(
            zip(valid, training_results(question, steps), strict=True)
        ):
            if steps.memory.fits[place]:
                if (error := broken_limit(question, steps, place)) is not None:
                    found[at] = error
                    continue
                own = power[place] | checkpoint_results(inputs[at], question, steps, place)
                found[at] = dict(flat_results(row | own)), warnings[place]
            else:
                found[at] = does_not_fit(inputs[at], question, steps.memory, place)
    return Answered.of([found[at] for at in range(len(inputs))])


def _warnings(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[tuple[str, ...]]:
    """Return what to know before relying on a step, for each candidate."""
    above, power = above_measured(question, steps), power_remarks(inputs, question, steps)
    unused = [unused_warnings(vars(one), verb_fields("train")) for one in inputs]
    return [tuple(chain(*notes)) for notes in zip(above, power, unused, strict=True)]


def _scenario(inputs: TrainInputs, question: TrainingQuestion) -> dict[str, Any]:
    layouts = question.layouts
    return complete_scenario(
        verb_fields("train"),
        inputs,
        gpus=int(layouts.gpus[0]),
        dp=data_parallel(inputs),
        engine=question.engine.id,
        format=question.formats.gemm,
        pipeline_schedule=question.schedule,
        zero=inputs.zero or str(question.engine.zero),
        sequence_parallel=bool(layouts.sequence_parallel[0]),
        gradient_format=question.gradient_format,
        dispatcher=question.dispatcher if question.network.has_experts else None,
        dispatch_format=question.dispatch_format if question.network.has_experts else None,
        moment_format=question.moment_format,
        tensor_overlap=question.engine.tiled_tensor_overlap if inputs.tp > 1 else None,
    )
