"""What a step waits for the slowest of its ranks or scale-up domains, and what is unknown of it.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.sampling import expected_slowdown

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion

DOMAIN: Final = "domain"


def scale_error(question: TrainingQuestion) -> FloatArray:
    """Return what ln(measured/predicted) may gain beyond the largest fitted job (C,).

    Source: `scale_growth` of validation.training.
    Limits: The growth of jobs up to 2,304 GPUs, extrapolated; no model of contended networks.
    """
    engine, gpus_C = question.engine, question.layouts.gpus
    if not engine.largest_fitted_gpus:
        return np.zeros(question.layouts.size)
    octaves_C: FloatArray = np.log2(np.maximum(gpus_C / engine.largest_fitted_gpus, 1.0))
    return engine.error_per_octave * octaves_C


def jitter_share(question: TrainingQuestion) -> FloatArray:
    """Return the wait for the slowest rank over the time of a mean one (C,).

    Ranks of one program on a slice of TPUs take equal times: there, domains wait for each other.

    Source: `jitter` of the engine; for GPUs the spread of SGEMM over 392 V100 at their power limit.
    Limits: GPUs that no power limit slows differ less: RTX 5000 by 0.5%, kernels limited by memory
        by 0.1% (hal-uw/blox-pal, aggregated_data). GPUs that failures slow are part of a fleet.
    """
    engine, waiting_C = question.engine, question.layouts.gpus
    if engine.jitter_unit == DOMAIN:
        sizes = [float(system.device.scale_up.domain_size) for system in question.systems]
        waiting_C = np.ceil(waiting_C / np.array(sizes)[question.index_C])
    return expected_slowdown(
        engine.jitter_distribution,
        np.full(question.layouts.size, engine.jitter),
        waiting_C.astype(np.int64),
    )
