"""Power and energy of a training step: its dynamic energy, and boards that wait.

Shape legend: C candidates, U distinct shapes, G segments, L recompute levels, N classes of
operators, K kinds of energy (chip, memory and links).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.operators import WORK_CLASSES
from perfatlas.training.step.data_parallel import reduced_per_micro_batch
from perfatlas.training.step.energy import CHIP, MEMORY, layer_counts, link_j_per_byte
from perfatlas.training.step.states import shard_ranks, state_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.energy import PowerColumns
    from perfatlas.operators import FloatArray
    from perfatlas.step import StepClock
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.optimizer import OptimizerCost
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Parts of the step in which a board waits, by part of the energy.
_WAITS_BY_COMPONENT: Final = {
    "communication": ("exposed_tp", "exposed_cp", "exposed_ep", "exposed_dp", "exposed_pp"),
    "recompute": ("recompute",),
    "optimizer": ("optimizer",),
    "bubble": ("bubble",),
    "waiting": ("exposed_offload", "host", "jitter", "input"),
}


@dataclass(frozen=True, kw_only=True)
class StepPower:
    """Energy of the steps of a mean GPU, all NaN for devices of which no energies are known."""

    parts_j: Mapping[str, FloatArray]  # Parts of the energy by name, which sum to it (C,) [J]
    dynamic_j_C: FloatArray  # Energy of its kernels and collectives (C,) [J]
    width_j_C: FloatArray  # Its half-width by the interval of the voltage curve (C,) [J]
    on_w_C: FloatArray  # Power of a board without kernels (C,) [W]
    clock: StepClock  # Clock of the passes of each candidate (C,)
    power: PowerColumns  # Power of the devices, with their limits

    def step_j(self) -> FloatArray:
        """Return the energy of a step (C,) [J]."""
        total_C: FloatArray = np.sum([*self.parts_j.values()], axis=0)
        return total_C

    def power_w(self, time_s_C: FloatArray) -> FloatArray:
        """Return the mean power of steps that last so long (C,) [W]."""
        watts_C: FloatArray = np.minimum(
            self.on_w_C + self.dynamic_j_C / time_s_C, self.power.cap_w
        )
        return watts_C


class _Dynamic(NamedTuple):
    """Dynamic energy of a mean GPU in a step (C,) [J]."""

    classes_NC: FloatArray  # Energy by class (N, C)
    again_C: FloatArray  # Energy of recomputation
    optimizer_C: FloatArray
    chip_C: FloatArray  # Part of all of these that scales with the squared voltage


def step_power(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    stages: StageColumns,
    waterfall: Mapping[str, FloatArray],
    optimizer: OptimizerCost,
) -> StepPower:
    """Return the energy of the step of each candidate.

    A part has the dynamic energy of its operators and the power that a board draws without
    kernels over its time in the waterfall, that of kernels by their times. A bubble has that
    power alone.

    Args:
        waterfall: Parts of the step (C,) [s].

    Source: data/energy/energies.toml and boards.toml, as in inference.
    Limits: The work of a mean GPU and the waterfall of the busiest pipeline rank. The power of the
        GPU board alone; copies between device and host have no energy.
    """
    power, clock = question.power(), costs.clock
    clock = clock._replace(**{name: var[costs.index_C] for name, var in clock._asdict().items()})
    on_w_C = power.on_w - clock.saved_w
    dynamic = _dynamic(question, costs, stages, optimizer, clock)
    room_j_C = np.maximum(power.cap_w - on_w_C, 0.0) * sum(waterfall.values())
    total_C = dynamic.classes_NC.sum(axis=0) + dynamic.again_C + dynamic.optimizer_C
    kept_C = np.minimum(room_j_C / np.maximum(total_C, np.finfo(np.float64).tiny), 1.0)
    kernel_s_NC = _micro_batches(question, costs.energy.own_s[:, costs.index_C])
    share_NC = kernel_s_NC / kernel_s_NC.sum(axis=0)
    parts = {
        name: kept_C * dynamic.classes_NC[n] + on_w_C * waterfall["compute"] * share_NC[n]
        for n, name in enumerate(WORK_CLASSES)
    }
    parts["recompute"] = kept_C * dynamic.again_C
    parts["optimizer"] = kept_C * dynamic.optimizer_C
    parts |= {"bubble": np.zeros_like(on_w_C), "waiting": np.zeros_like(on_w_C)}
    for name, waits in _WAITS_BY_COMPONENT.items():
        parts[name] = parts[name] + on_w_C * np.sum([waterfall[wait] for wait in waits], axis=0)
    return StepPower(
        parts_j=parts,
        dynamic_j_C=kept_C * total_C,
        width_j_C=clock.energy_width * kept_C * dynamic.chip_C,
        on_w_C=on_w_C,
        clock=clock,
        power=power,
    )


def _micro_batches(question: TrainingQuestion, values_CG: FloatArray) -> FloatArray:
    """Return a value of all micro-batches on a mean rank, from one per layer (..., C)."""
    layouts = question.layouts
    of_one: FloatArray = (values_CG * layer_counts(question)).sum(axis=-1)
    return of_one * layouts.micro_batches / layouts.pp


def _dynamic(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    stages: StageColumns,
    optimizer: OptimizerCost,
    clock: StepClock,
) -> _Dynamic:
    """Return the dynamic energy of a mean GPU, at the voltage of the clock."""
    shape_C, rows_C = costs.index_C, np.arange(question.layouts.size)
    classes_KNC = _micro_batches(question, costs.energy.own_j[:, :, shape_C])
    classes_NC = classes_KNC[CHIP] * clock.energy_share + classes_KNC[MEMORY]
    classes_NC[WORK_CLASSES.index("communication")] += _sharding_j(question, stages)
    again_KLC = _micro_batches(question, costs.energy.again_j[:, :, shape_C])
    again_KC = again_KLC[:, question.layouts.recompute, rows_C]
    return _Dynamic(
        classes_NC,
        again_KC[CHIP] * clock.energy_share + again_KC[MEMORY],
        optimizer.chip_j * clock.energy_share + optimizer.memory_j,
        clock.energy_share * (classes_KNC[CHIP].sum(axis=0) + again_KC[CHIP] + optimizer.chip_j),
    )


def _sharding_j(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the energy of the links of data parallelism (C,) [J].

    A rank sends (n - 1) / n of the gradients to scatter them, and of the weights to gather them;
    an all-reduce does both with gradients.
    """
    layouts = question.layouts
    each_C = reduced_per_micro_batch(question)
    passes_C = np.where(each_C, layouts.micro_batches, 1.0)
    gathers_C = np.where(each_C & (layouts.zero >= 3), 2.0 * passes_C, layouts.zero >= 1)
    weight_bytes = state_bytes(question).gathered
    sent_C = np.zeros(layouts.size)
    weights = (
        (stages.trained_dense_CS, stages.dense_CS),
        (stages.trained_expert_CS, stages.expert_CS),
    )
    for (trained_CS, all_CS), ranks_C in zip(weights, shard_ranks(question), strict=True):
        trained_C, all_C = (
            stages.over_ranks(one_CS).sum(axis=1) / layouts.pp for one_CS in (trained_CS, all_CS)
        )
        scatters_C = passes_C * np.where(layouts.zero >= 1, 1.0, 2.0)
        moved_C = scatters_C * question.gradient_bytes * trained_C
        moved_C += gathers_C * weight_bytes * np.where(layouts.zero >= 3, all_C, trained_C)
        sent_C += moved_C * (1.0 - 1.0 / ranks_C)
    return sent_C * link_j_per_byte(question)
