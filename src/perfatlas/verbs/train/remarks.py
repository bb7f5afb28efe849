"""What to know before relying on a training step, and options that change nothing in it.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.training.profiles import highest_mfu
from perfatlas.training.step import training_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.scenario.training_steps import TrainInputs
    from perfatlas.training.step import TrainingQuestion, TrainingSteps

NO_RANKS: Final = "sequence_parallel has no effect with tp = 1"
FROZEN: Final = "fused_weight_gradient has no effect: with lora_rank, weights have no gradients"
HIDDEN_LAUNCHES: Final = (
    "cuda_graphs = {graphs} has no effect: kernels are launched while the GPU computes, also"
    " without graphs"
)


ABOVE_MEASURED: Final = (
    "MFU {mfu:.1%} is above the highest published, {highest:.1%} ({kind}, {format}, {device}:"
    " {run}; {source})"
)


def above_measured(question: TrainingQuestion, steps: TrainingSteps) -> list[tuple[str, ...]]:
    """Return what to say of MFU above all published ones of the device, for each candidate (C).

    Args:
        question: The candidates.
        steps: Their steps.
    """
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


def graphs_matter(question: TrainingQuestion, steps: TrainingSteps) -> NDArray[np.bool_]:
    """Return whether a step would take another time without CUDA graphs (C,).

    Args:
        question: The candidates.
        steps: Their steps.
    """
    if question.cuda_graphs == "none":
        return np.ones(steps.step_s_C.shape, np.bool_)
    without = training_steps(replace(question, cuda_graphs="none"))
    matter_C: NDArray[np.bool_] = without.step_s_C != steps.step_s_C
    return matter_C


def step_remarks(inputs: TrainInputs, known: Sequence[str], *, graphs_act: bool) -> tuple[str, ...]:
    """Return what to know before relying on a step.

    Args:
        inputs: The fields.
        known: What to know of its power and its MFU.
        graphs_act: Whether the step would take another time without CUDA graphs.
    """
    told = {
        NO_RANKS: bool(inputs.sequence_parallel) and inputs.tp == 1,
        FROZEN: not inputs.fused_weight_gradient and bool(inputs.lora_rank),
        HIDDEN_LAUNCHES.format(graphs=inputs.cuda_graphs): not graphs_act,
    }
    return (*known, *(remark for remark, holds in told.items() if holds))
