"""Activations that wait for their backward pass in the memory of the host.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.step.overlap import exposed_time
from perfatlas.training.step.memory import offloaded_bytes

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns


class LayerOffload(NamedTuple):
    """Exposed transfers of activations to and from the host, per layer and micro-batch (C,) [s]."""

    forward_s_C: FloatArray
    backward_s_C: FloatArray


def offloaded_layers(
    question: TrainingQuestion,
    stages: StageColumns,
    forward_s_C: FloatArray,
    backward_s_C: FloatArray,
) -> LayerOffload:
    """Return what moving activations to the host and back adds to a layer (C,) [s].

    Copy engines move them beside the forward pass of the next layer, and back beside the backward
    pass of the one before; they take memory bandwidth and no SMs.

    Source: vDNN (arXiv 1602.08124), section 3; Megatron-LM, `--cpu-offloading-num-layers` and
        `--fine-grained-activation-offloading`.
    Limits: All GPUs of a node use their own link to the host at once; traffic of NICs behind the
        same PCIe switch is not counted.
    """
    moved_C = offloaded_bytes(question, stages)
    if question.recipe.activation_offload == 0.0:
        return LayerOffload(np.zeros_like(forward_s_C), np.zeros_like(forward_s_C))
    devices = question.devices()
    link_C = devices.gather("host_link_bandwidth")
    time_s_C = moved_C / link_C
    held_back_s_C = moved_C / devices.gather("memory_bandwidth")
    if question.tier == "bound":
        held_back_s_C = np.zeros_like(held_back_s_C)
    return LayerOffload(
        exposed_time(time_s_C, forward_s_C, held_back_s_C),
        exposed_time(time_s_C, backward_s_C, held_back_s_C),
    )
