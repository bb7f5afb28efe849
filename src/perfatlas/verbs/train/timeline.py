"""The course of the step of one question: passes of the pipeline and memory over time."""

from __future__ import annotations

from typing import Any, Final

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.schedules import find_schedule
from perfatlas.training.step import StepTimeline, step_timeline, training_steps

# passes of a timeline: a trace has a hundred bytes or two of each
MOST_PASSES: Final = 500_000


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
    question = question_of([read_training(fields)])
    layouts = question.layouts
    kinds = 3 if find_schedule(question.schedule).splits_backward else 2
    count = kinds * float((layouts.pp * layouts.vpp * layouts.micro_batches)[0])
    if count > MOST_PASSES:
        raise InvalidSpecError(
            f"the timeline of this step has {count:,.0f} passes, and at most {MOST_PASSES:,} are"
            " written; lower global_batch, as passes repeat from one micro-batch to the next"
        )
    return step_timeline(question, training_steps(question))
