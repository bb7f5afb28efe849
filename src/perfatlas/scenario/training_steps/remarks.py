"""What to know before relying on a training step.

Shape legend: C candidates.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from perfatlas.scenario.fields import unused_warnings
from perfatlas.scenario.training_steps.power import power_remarks
from perfatlas.training.profiles import highest_mfu
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.training_steps.inputs import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

ABOVE_MEASURED: Final = (
    "MFU {mfu:.1%} is above the highest published, {highest:.1%} ({kind}, {format}, {device}:"
    " {run}; {source})"
)

UPPER_MEMORY: Final = (
    "memory is an upper estimate, and exceeds that of the device: what the compiler frees inside a"
    " layer is not known, so the step may still fit"
)


def training_warnings(
    inputs: Sequence[TrainInputs], question: TrainingQuestion, steps: TrainingSteps
) -> list[tuple[str, ...]]:
    """Return what to know before relying on a step, for each candidate (C).

    Args:
        inputs: Fields of the candidates.
    """
    above, power = above_measured(question, steps), power_remarks(inputs, question, steps)
    unused = [unused_warnings(vars(one), fields_of(type(one))) for one in inputs]
    memory = [() if fits else (UPPER_MEMORY,) for fits in steps.memory.fits]
    return [tuple(chain(*notes)) for notes in zip(above, power, unused, memory, strict=True)]


def above_measured(question: TrainingQuestion, steps: TrainingSteps) -> list[tuple[str, ...]]:
    """Return what to say of MFU above all published ones of the device, for each candidate (C)."""
    kind = "moe" if question.network.has_experts else "dense"
    peak_C = steps.step_s_C * question.layouts.gpus * steps.peak_flop_per_s_C
    pretrains = question.tier != "bound" and not question.recipe.lora_rank
    said: list[tuple[str, ...]] = []
    for mfu, index in zip(steps.model_flop_C / peak_C, question.index_C, strict=True):
        device = question.systems[index].device
        known = highest_mfu().get((device.name, kind, question.formats.gemm))
        if known is None or not pretrains or device.overridden or mfu <= known.mfu:
            said.append(())
            continue
        words = {"kind": "MoE" if kind == "moe" else kind, "format": question.formats.gemm}
        words |= {"device": device.name, "run": known.run, "source": known.source}
        said.append((ABOVE_MEASURED.format(mfu=mfu, highest=known.mfu, **words),))
    return said
