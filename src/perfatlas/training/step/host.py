"""Host time of a training step: launches of kernels that no CUDA graph replaces.

Shape legend: P parts of a step (forward, input gradient, weight gradient), C candidates, S stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.training.schedules import find_schedule
from perfatlas.training.step.stages import moe_share
from perfatlas.training.work import Part

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.question import TrainingQuestion

# Share of the launches of a layer that CUDA graphs leave to the host.
LAUNCHED: Final = {"none": 1.0, "attention": 0.5, "full": 0.0}


def launch_s(
    question: TrainingQuestion, layers_CS: FloatArray, costs: MicroBatchCosts | None = None
) -> FloatArray:
    """Return the host time of each part of a micro-batch on stages (P, C, S) [s].

    Limits: The three parts launch equally many kernels (assumption). Graphs of attention and router
        leave half of the launches (assumption).
    """
    if question.graph is not None and costs is not None:
        each_s = 0.0 if question.tier == "bound" else question.graph.host.per_operator_prefill_s
        count_PU = np.zeros((len(Part), costs.totals.time_s.size))
        for row in costs.rows:
            count_PU[row.part] += row.operator.count
        launched_PCS: FloatArray = each_s * count_PU[:, costs.index_C, None] * layers_CS
        return launched_PCS
    engine, share = question.engine, moe_share(question.network)
    mean_s = share * engine.host_s_per_moe_layer + (1.0 - share) * engine.host_s_per_dense_layer
    each_s = mean_s * LAUNCHED[question.cuda_graphs]
    return np.stack([each_s / len(Part) * layers_CS] * len(Part))


def launch_waits_s(
    question: TrainingQuestion, kernels_PCS: FloatArray, launched_PCS: FloatArray
) -> FloatArray:
    """Return what the parts of a micro-batch wait for the host (P, C, S) [s].

    The host launches kernels ahead of the device: a pass lasts as long as its kernels or their
    launches, whichever takes longer, so that no step is longer with shorter kernels. A backward
    pass is one pass, unless the schedule splits it.

    Args:
        kernels_PCS: Kernels and exposed collectives of each part (P, C, S) [s].
        launched_PCS: Their launches, from `launch_s` (P, C, S) [s].
    """
    waits_PCS: FloatArray = np.maximum(launched_PCS - kernels_PCS, 0.0)
    if not find_schedule(question.schedule).splits_backward:
        longer_CS = (launched_PCS - kernels_PCS)[Part.INPUT_GRADIENT :].sum(axis=0)
        waits_PCS[Part.INPUT_GRADIENT] = 0.0
        waits_PCS[Part.WEIGHT_GRADIENT] = np.maximum(longer_CS, 0.0)
    return waits_PCS
