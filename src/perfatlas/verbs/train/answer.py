"""`train`: the time of a training step, its memory and where the time goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, flat_results
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.scenario.fields import (
    Answered,
    answer_columns,
    complete_scenario,
    within_disputed_ends,
)
from perfatlas.scenario.training_steps import (
    FACILITY,
    OF_LANGUAGE_MODELS,
    RANKS,
    SIZES,
    STORAGE,
    TrainInputs,
    data_parallel,
    power_over_time,
    question_of,
    read_training,
    schedule_of,
    training_breakdown,
    training_rows,
    training_step,
)
from perfatlas.training.schedules import find_schedule
from perfatlas.training.step import StepTimeline, step_timeline, training_steps
from perfatlas.verbs.train.metrics import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.training_steps import PowerOverTime
    from perfatlas.training.step import TrainingQuestion

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
    return within_disputed_ends(_train, fields)


def _train(fields: Mapping[str, Any]) -> Answer:
    step = training_step(fields)
    results, evidence, warnings = dict(step.results), step.evidence(), step.warnings
    if step.inputs.trace_duration_s is not None:
        power = power_over_time(step, _timeline(step.question))
        step = power.step
        results = {**step.results, **power.results}
        warnings = (*warnings, *power.warnings)
        evidence = replace(evidence, assumptions=(*evidence.assumptions, *power.notes))
    return Answer(
        command="train",
        scenario=_scenario(step.inputs, step.question),
        results=results,
        breakdown=training_breakdown(step.question, step.steps),
        warnings=warnings,
        evidence=evidence,
    )


def train_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of training steps.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return answer_columns(
        table, TrainInputs, _rows, varying=VARYING, question=read_training, alike=schedule_of
    )


def _rows(inputs: Sequence[TrainInputs]) -> Answered:
    """Return the answers of questions of one schedule that differ in `VARYING` alone."""
    if inputs[0].trace_duration_s is not None:
        raise InvalidSpecError(
            "trace_duration_s cannot be answered for rows of a table; leave it out, and ask for the"
            " power over time of one step"
        )
    return Answered.of(
        [
            step
            if isinstance(step, PerfatlasError)
            else (dict(flat_results(step.results)), step.warnings)
            for step in training_rows(inputs)
        ]
    )


def _scenario(inputs: TrainInputs, question: TrainingQuestion) -> dict[str, Any]:
    layouts = question.layouts
    network = question.network
    decided: dict[str, Any] = {
        "gpus": int(layouts.gpus[0]),
        "dp": data_parallel(inputs),
        "engine": question.engine.id,
        "format": question.formats.gemm,
        "pipeline_schedule": question.schedule,
        "zero": inputs.zero or str(question.engine.zero),
        "sequence_parallel": bool(layouts.sequence_parallel[0]),
        "gradient_format": question.gradient_format,
        "dispatcher": question.dispatcher if network.has_experts else None,
        "dispatch_format": question.dispatch_format if network.has_experts else None,
        "moment_format": question.moment_format,
        "tensor_overlap": question.engine.tiled_tensor_overlap if inputs.tp > 1 else None,
    }
    if network.item:
        decided |= dict.fromkeys(OF_LANGUAGE_MODELS)
    return complete_scenario(verb_fields("train"), inputs, **decided)


# passes of a timeline: a trace has a hundred bytes or two of each
MAX_PASSES: Final = 500_000


def training_timeline(**fields: Any) -> StepTimeline:  # noqa: ANN401 - fields of `train`
    """Return the course of a training step.

    Args:
        **fields: Fields of `perfatlas train`.

    Raises:
        InvalidSpecError: The fields are not those of a training step, or the step has too many
            passes for a timeline.

    Example:
        >>> from perfatlas.verbs.train import train, training_timeline
        >>> fields = dict(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8, tp=2, pp=4,
        ...     sequence_length=4096, global_batch=64)
        >>> step_s = train(**fields).results["step_time_s"]
        >>> abs(training_timeline(**fields).step_s / step_s - 1) < 1e-9
        True
    """
    return _timeline(question_of([read_training(fields)]))


def _timeline(question: TrainingQuestion) -> StepTimeline:
    layouts = question.layouts
    kinds = 3 if find_schedule(question.schedule).splits_backward else 2
    count = kinds * float((layouts.pp * layouts.vpp * layouts.micro_batches)[0])
    if count > MAX_PASSES:
        raise InvalidSpecError(
            f"the timeline of this step has {count:,.0f} passes, and at most {MAX_PASSES:,} are"
            " written; lower global_batch, as passes repeat from one micro-batch to the next"
        )
    return step_timeline(question, training_steps(question))


def training_power(**fields: Any) -> PowerOverTime:  # noqa: ANN401 - fields of `train`
    """Return the AC power of the first rack, of the job and of the site over time.

    Args:
        **fields: Fields of `perfatlas train`, with `trace_duration_s`.

    Raises:
        InvalidSpecError: The fields are not those of a training step, or trace_duration_s is
            missing.
        UnsupportedError: The power of the device or of its nodes is not known.

    Example:
        >>> from perfatlas.verbs.train import training_power
        >>> power = training_power(model="meta-llama/Llama-3.1-8B", system="h100_sxm", gpus=8,
        ...     tp=2, sequence_length=4096, global_batch=64, trace_duration_s=10)
        >>> sorted(power.watts), len(power.columns()["job_power_w"])
        (['job', 'rack'], 1000)
    """
    if fields.get("trace_duration_s") is None:
        raise InvalidSpecError("trace_duration_s is missing; set it, such as trace_duration_s = 60")
    step = training_step(fields)
    return power_over_time(step, _timeline(step.question))
