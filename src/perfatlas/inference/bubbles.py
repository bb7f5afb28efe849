"""Time within steps in which GPUs run no kernel: bubbles of pipelines, and waits for the host.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.inference.stage_prompts import prompts_in_stages

if TYPE_CHECKING:
    from perfatlas.inference.mixed_steps import LoadSteps, MixedStep
    from perfatlas.inference.running_load import RunningLoad
    from perfatlas.inference.step_totals import StepTotals
    from perfatlas.operators import FloatArray


def bubbles(loaded: RunningLoad, steps: LoadSteps) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the GPU time without a kernel of the prompts of a chunk, and of one decode step.

    The last of the three is the time in which kernels run for the prompts. Each (C,) [s] sums one
    GPU of every pipeline stage. A rank that waits in a collective runs a
    kernel. Without stages, all of it is exposed host time.

        decode: (stages x cycle - micro-batches x kernels) / micro-batches
        prompts: stages x time of the pipeline - kernels

    The cycle is the time in which every micro-batch decodes once. The time of the pipeline is that
    for which prompts delay the decodes beside them (`stage_prompts`).

    Args:
        loaded: What runs at the same time.
        steps: A full chunk and the last chunk with their decodes, and a decode step.

    Source: derived, as the latencies of the same steps (`composition`).

    Limits: Time that runs take beyond their steps, for joining a batch or between requests of a
        client, is not a bubble.
    """
    plan, chunks = loaded.question.plan, loaded.chunks
    step_s, kernels_s = steps.decode.total_s(), _kernels_s(steps.decode)
    cycle_s = step_s * np.maximum(loaded.micro_batches * loaded.stage_share, 1.0)
    decode_s = plan.pp * cycle_s / loaded.micro_batches - kernels_s
    beside = loaded.beside_share()
    beside_s, beside_kernels_s = (
        np.where(beside > 0.0, beside * each_s, 0.0) for each_s in (step_s, kernels_s)
    )
    first_s, last_s = (one.total_s() - beside_s for one in (steps.chunk, steps.last))
    added_s = chunks.count * first_s + chunks.last_count * last_s
    first_kernels_s, last_kernels_s = (
        _kernels_s(one) - beside_kernels_s for one in (steps.chunk, steps.last)
    )
    kernels_added_s = chunks.count * first_kernels_s + chunks.last_count * last_kernels_s
    passes_s = prompts_in_stages(loaded, added_s, first_s)
    return plan.pp * passes_s - kernels_added_s, decode_s, kernels_added_s


def _kernels_s(step: MixedStep | StepTotals) -> FloatArray:
    """Return the time in which a rank of each stage runs kernels (C,) [s]."""
    return step.total_s() - step.exposed_host_s()
