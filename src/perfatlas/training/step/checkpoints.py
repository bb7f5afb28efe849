"""Time to write and to read a checkpoint of a training job.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.training.step.collective_prices import GroupColumns, collective_times
from perfatlas.training.step.states import WEIGHT_BYTES, checkpoint_bytes

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns


class CheckpointTimes(NamedTuple):
    """Times of a checkpoint."""

    copy_s_C: FloatArray  # Copy from devices to the memory of their hosts (C,) [s]
    write_s_C: FloatArray  # From then until storage has all of it (C,) [s]
    stall_s_C: FloatArray  # Time in which no step runs (C,) [s]
    read_s_C: FloatArray  # Reading it, also on another layout, until devices have it (C,) [s]


def checkpoint_times(
    question: TrainingQuestion,
    stages: StageColumns,
    bytes_per_s: float,
    *,
    asynchronous: bool,
) -> CheckpointTimes:
    """Return the times of writing and reading a checkpoint.

    All ranks copy their part over their link to the host, and write it. Steps wait for the copy
    alone where writing is asynchronous. For reading, every rank reads a part, copies it to the
    device, and the weights that data-parallel ranks do not shard are gathered from their parts.
    Reading on another layout moves the same bytes: parts are named by the tensors that they are
    cut from.

    Args:
        bytes_per_s: Rate at which storage takes and gives the data of the whole job [bytes/s].
        asynchronous: Whether steps go on while storage writes.

    Source: Megatron-LM, dist_checkpointing (`--async-save`, fully parallel save and load);
        PyTorch, torch.distributed.checkpoint.
    Limits: A write that lasts longer than the time between two checkpoints delays the next one,
        which is not counted. Reading and writing have equal rates; steps beside a write are not
        slower. Hosts hold a copy of their part.
    """
    layouts, bytes_C = question.layouts, checkpoint_bytes(question)
    link_C = question.devices().gather("host_link_bandwidth")
    copy_s_C = bytes_C / layouts.gpus / link_C
    write_s_C = bytes_C / bytes_per_s
    stall_s_C = copy_s_C if asynchronous else copy_s_C + write_s_C
    read_s_C = write_s_C + copy_s_C + _gather_s(question, stages)
    return CheckpointTimes(copy_s_C, write_s_C, stall_s_C, read_s_C)


def _gather_s(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the gathers of weights that data-parallel ranks hold whole (C,) [s]."""
    layouts = question.layouts
    groups = (
        (stages.trained_dense_CS, layouts.dp * layouts.cp, layouts.tp),
        (stages.trained_expert_CS, layouts.expert_dp, layouts.ep * layouts.expert_tp),
    )
    total_s_C = np.zeros(layouts.size)
    for held_CS, ranks_C, stride_C in groups:
        held_C = stages.over_ranks(held_CS).max(axis=1) * WEIGHT_BYTES
        bytes_C = np.where(layouts.zero >= 3, 0.0, held_C)
        group = GroupColumns(ranks_C, stride_C, question.index_C)
        total_s_C += collective_times(question, "all_gather", bytes_C, group)[0]
    return total_s_C / question.engine.efficiency_communication
