"""The training step of each candidate: time, waterfall, utilization and memory.

Shape legend: C candidates, S pipeline stages, R ranks, P parts of the step, K kinds of time,
V variants, G segments, E ends of an interval and its likely value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.training.schedules import find_schedule, peak_activations, pipeline_steps
from perfatlas.training.step.costs import KINDS, micro_batch_costs
from perfatlas.training.step.data_parallel import sharded_layers, step_collectives
from perfatlas.training.step.host import launch_s, launch_waits_s
from perfatlas.training.step.jitter import jitter_share, scale_error
from perfatlas.training.step.links import stage_send_s
from perfatlas.training.step.memory import kept_by_stages, moved_by_stages, training_memory
from perfatlas.training.step.offload import offloaded_layers
from perfatlas.training.step.optimizer import optimizer_cost
from perfatlas.training.step.pairs import overlapped_experts_s, paired_stages
from perfatlas.training.step.pipeline import copies_of_layers, pipelines_of
from perfatlas.training.step.power import step_power
from perfatlas.training.step.stages import group_shares, spread_over_stages, stage_columns
from perfatlas.training.work import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.training.schedules import Pipelines
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.memory import TrainingMemory
    from perfatlas.training.step.power import StepPower
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Parts of a step, in the order in which they are shown; they sum to it.
WATERFALL: Final = (
    *("compute", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_dp", "exposed_pp"),
    *("exposed_offload", "bubble", "recompute", "optimizer", "host", "jitter", "input"),
)
FLOP_CONVENTION: Final = (
    "model FLOP are three times those of the forward pass (twice those of frozen products): causal"
    " attention, with the LM head,"
    " without the embedding and without recomputation; the peak is the dense one of the format of"
    " the linear layers"
)
# forward pass, input gradients and weight gradients have equal model FLOP
PASSES: Final = 3.0
ROUNDING: Final = 1e-12  # of sums over the passes of a step


@dataclass(frozen=True, kw_only=True)
class TrainingSteps:
    """The training step of each candidate."""

    step_s_C: FloatArray  # Predicted time (C,) [s]
    passes_s_C: FloatArray  # The part of it until the last pass of the pipeline ends (C,) [s]
    # Lower end of the 90% interval, at least the time of the FLOP at the peak (C,) [s]
    low_s_C: FloatArray
    high_s_C: FloatArray  # Upper end of the 90% interval (C,) [s]
    waterfall: Mapping[str, FloatArray]  # Parts of the step by name of `WATERFALL` (C,) [s]
    model_flop_C: FloatArray  # Model FLOP of a step over all GPUs (C,) [FLOP]
    hardware_flop_C: FloatArray  # Model FLOP and recomputed ones (C,) [FLOP]
    peak_flop_per_s_C: FloatArray  # Peak of one GPU (C,) [FLOP/s]
    memory: TrainingMemory  # Memory of the fullest rank
    power: StepPower  # Power and energy of a mean GPU
    costs: MicroBatchCosts
    stages: StageColumns  # The pipeline stages
    pipelines: Pipelines  # The passes of their pipelines
    busiest_C: FloatArray  # Rank with most work (C,)


class _RankTimes(NamedTuple):
    """Times of one micro-batch on the stages of each candidate."""

    kinds_VPKCS: FloatArray  # By variant, part and kind (V, P, K, C, S) [s]
    again_VKCS: FloatArray  # Recomputed part of the forward pass (V, K, C, S) [s]
    sharding_PCS: FloatArray  # Exposed collectives of ZeRO-3, forward and backward (2, C, S) [s]
    offload_PCS: FloatArray  # Exposed transfers of activations to and from the host (2, C, S) [s]


def training_steps(
    question: TrainingQuestion, costs: MicroBatchCosts | None = None
) -> TrainingSteps:
    """Return the training step of each candidate.

    A step is the pipeline of its micro-batches, the data-parallel collectives that nothing hides,
    the optimizer, and host time; all ranks wait for the slowest.

    Args:
        question: The candidates, which keep all rules of layouts.
        costs: Their micro-batches, if they are priced already.

    Raises:
        UnsupportedError: A device or schedule is not supported.

    Limits: Transfers of different kinds do not slow each other down on shared links.
    """
    costs = micro_batch_costs(question) if costs is None else costs
    question = replace(question, clock_C=costs.clock.ratio[costs.index_C])
    stages = stage_columns(question, costs)
    times = _stage_times(question, costs, stages)
    kernels_PCS, launched_PCS = _passes(times), launch_s(question, stages.layers_CS, costs)
    waits_PCS = launch_waits_s(question, kernels_PCS, launched_PCS)
    passes_PCS = kernels_PCS + waits_PCS
    send_s_C, pair_s_CS = stage_send_s(question), None
    if find_schedule(question.schedule).overlaps_pairs and question.network.has_experts:
        pair_s_CS = paired_stages(question, costs, stages, kernels_PCS, launched_PCS)
    pipelines = pipelines_of(
        question.schedule,
        question.layouts,
        passes_PCS,
        send_s_C,
        overlap=question.engine.pipeline_send_overlap and question.schedule == "interleaved",
        pair_s_CS=pair_s_CS,
    )
    busiest_C = stages.over_ranks(passes_PCS.sum(axis=0)).argmax(axis=1)
    optimizer = optimizer_cost(question, costs, stages)
    names = ("compute", "exposed_tp", "exposed_cp", "exposed_ep")
    parts_CS = {
        name: times.kinds_VPKCS[0, :, KINDS.index(kind)].sum(axis=0)
        for name, kind in zip(names, KINDS, strict=True)
    }
    parts_CS["exposed_dp"] = times.sharding_PCS.sum(axis=0)
    parts_CS["exposed_offload"] = times.offload_PCS.sum(axis=0)
    parts_CS["host"] = waits_PCS.sum(axis=0)
    parts_CS["recompute"] = times.again_VKCS[0].sum(axis=0)
    busy = {
        name: _of_rank(question, stages, values_CS, busiest_C)
        for name, values_CS in parts_CS.items()
    }
    spare_s_C = _of_rank(question, stages, (passes_PCS - launched_PCS).sum(axis=0), busiest_C)
    parts = _parts(question, costs, busy, spare_s_C, pipelines, busiest_C)
    passes_s_C = sum(parts.values(), np.zeros(question.layouts.size))
    if question.expert_overlap:  # what pairs of passes hide is no time for other transfers
        share_C = np.sum([parts[n] for n in busy], axis=0) / np.sum([*busy.values()], axis=0)
        passes_PCS = passes_PCS * share_C[:, None]
    forward_s_CR = stages.over_ranks(passes_PCS[0])
    backward_s_CR = stages.over_ranks(passes_PCS[1:].sum(axis=0))
    parts["exposed_dp"] += step_collectives(question, stages, forward_s_CR, backward_s_CR, send_s_C)
    step_s_C, waterfall = _with_waits(question, {**parts, "optimizer": optimizer.time_s})
    each_VCS = times.kinds_VPKCS.sum(axis=(1, 2)) + times.again_VKCS.sum(axis=1)
    row_C = np.arange(busiest_C.size)
    busiest_VC = np.stack([stages.over_ranks(each_CS)[row_C, busiest_C] for each_CS in each_VCS])
    low_C, high_C = _spread(question, costs, busiest_VC)
    flop_C, again_flop_C = _flop(question, costs)
    peak_C = _peak(question)
    own_s_C, input_s_EC = step_s_C - waterfall["input"], _input_s(question)
    fast_s_C, slow_s_C = _host_spread(question, stages, kernels_PCS, launched_PCS, busiest_C)
    # no step is shorter than its FLOP at the peak, however wide the interval is
    ratio_C = np.array([system.device.peak_ratio for system in question.systems])[question.index_C]
    most_C = question.layouts.gpus * peak_C * ratio_C
    least_s_C = np.minimum((flop_C + again_flop_C) / most_C, step_s_C)
    return TrainingSteps(
        step_s_C=step_s_C,
        passes_s_C=passes_s_C,
        low_s_C=np.maximum.reduce([(own_s_C - fast_s_C) * low_C, least_s_C, input_s_EC[2]]),
        high_s_C=np.maximum((own_s_C + slow_s_C) * high_C, input_s_EC[0]),
        waterfall=waterfall,
        model_flop_C=flop_C,
        hardware_flop_C=flop_C + again_flop_C,
        peak_flop_per_s_C=peak_C,
        memory=_memory(question, stages, pipelines),
        power=step_power(question, costs, stages, waterfall, optimizer),
        costs=costs,
        stages=stages,
        pipelines=pipelines,
        busiest_C=busiest_C,
    )


def _host_spread(
    question: TrainingQuestion,
    stages: StageColumns,
    kernels_PCS: FloatArray,
    launched_PCS: FloatArray,
    busiest_C: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return what a step of a graph gains with fast launches and loses with slow ones (C,) [s]."""
    if question.graph is None:
        none_C = np.zeros(question.layouts.size)
        return none_C, none_C
    factor = question.graph.host.host_factor
    fast_C, own_C, slow_C = (
        _of_rank(
            question,
            stages,
            launch_waits_s(question, kernels_PCS, launched_PCS * each).sum(axis=0),
            busiest_C,
        )
        for each in (1.0 / factor, 1.0, factor)
    )
    return own_C - fast_C, slow_C - own_C


def _with_waits(
    question: TrainingQuestion, parts: Mapping[str, FloatArray]
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the step and all its parts, with waits for the slowest rank and the input (C,) [s]."""
    layouts = question.layouts
    parts = {**parts, "host": parts["host"] + question.engine.host_s_per_step}
    steady_s_C = sum(parts.values(), np.zeros(layouts.size))
    jitter_s_C = steady_s_C * jitter_share(question)
    step_s_C = steady_s_C + jitter_s_C
    input_s_C = np.maximum(_input_s(question)[1] - step_s_C, 0.0)
    whole = {**parts, "jitter": jitter_s_C, "input": input_s_C}
    return step_s_C + input_s_C, {name: whole[name] for name in WATERFALL}


def _input_s(question: TrainingQuestion) -> FloatArray:
    """Return how long the host decodes and augments the items of a step, beside the step before.

    Returns:
        At its least, likely and most rate (E, C) [s]; of tier bound always at the most.
    """
    layouts, rates = question.layouts, np.array(question.recipe.input_rates)
    if question.tier == "bound":
        rates = np.full_like(rates, rates[-1])
    items_C = layouts.global_batch / layouts.gpus
    input_s_EC: FloatArray = items_C / rates[:, None]
    return input_s_EC


def _peak(question: TrainingQuestion) -> FloatArray:
    """Return the dense peak of one GPU in the format of linear layers (C,) [FLOP/s]."""
    at_sustained = replace(question, clock_ratio=1.0, clock_C=None)
    return at_sustained.devices().peak_flop_per_s(question.formats.gemm)


def _memory(
    question: TrainingQuestion, stages: StageColumns, pipelines: Pipelines
) -> TrainingMemory:
    held_CR = peak_activations(pipelines, kept_by_stages(question, stages))
    moved_CR: FloatArray | float = 0.0
    if question.recipe.activation_offload:
        moved_CR = peak_activations(pipelines, moved_by_stages(question, stages))
    return training_memory(question, stages, held_CR, moved_CR)


def _passes(times: _RankTimes) -> FloatArray:
    """Return forward pass, input gradient with recomputation, and weight gradient (3, C, S) [s]."""
    passes_PCS: FloatArray = times.kinds_VPKCS[0].sum(axis=1)
    passes_PCS[: Part.WEIGHT_GRADIENT] += times.sharding_PCS + times.offload_PCS
    passes_PCS[Part.INPUT_GRADIENT] += times.again_VKCS[0].sum(axis=0)
    return passes_PCS


def _parts(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    busy: Mapping[str, FloatArray],
    spare_s_C: FloatArray,
    pipelines: Pipelines,
    busiest_C: FloatArray,
) -> dict[str, FloatArray]:
    """Return the parts of all micro-batches, from those of the busiest rank alone (C,) [s].

    Args:
        busy: Parts of the busiest rank with passes one after the other (C,) [s].
    """
    piped, parts = pipeline_steps(pipelines), dict(busy)
    alone_s_C = busy_s_C = sum(parts.values(), np.zeros(question.layouts.size))
    if pipelines.pair_s_CS is not None:  # computation of the other micro-batch hides transfers
        busy_s_C = piped.busy_s_CP[np.arange(question.layouts.size), busiest_C]
    parts["exposed_pp"] = piped.exposed_send_s_C
    idle_s_C = piped.step_s_C - piped.exposed_send_s_C - busy_s_C
    parts["bubble"] = np.where(idle_s_C > ROUNDING * piped.step_s_C, idle_s_C, 0.0)
    hidden_s_C = alone_s_C - busy_s_C
    if question.expert_overlap and question.network.has_experts:
        hidden_s_C = overlapped_experts_s(question, costs, parts["host"], spare_s_C)
    # passes that run as a pair also wait for the host together
    transfers_s_C = np.minimum(hidden_s_C, parts["exposed_ep"])
    parts["exposed_ep"] = parts["exposed_ep"] - transfers_s_C
    parts["host"] = parts["host"] - (hidden_s_C - transfers_s_C)
    return parts


def _stage_times(
    question: TrainingQuestion, costs: MicroBatchCosts, stages: StageColumns
) -> _RankTimes:
    """Return the times of one micro-batch on every stage."""
    shares_G, shape_C = group_shares(question.network), costs.index_C
    each_VPKCG = costs.time_s[:, :, :, shape_C]
    level_C, row_C = question.layouts.recompute, np.arange(question.layouts.size)
    # recomputed_s has levels on the second axis: the level of each candidate
    again_VKCG = np.moveaxis(costs.recomputed_s[:, :, :, shape_C][:, level_C, :, row_C], 0, 2)
    layer_PKC = (each_VPKCG[0, ..., 1:-1] * shares_G).sum(axis=-1)
    if question.expert_overlap:  # what pairs of passes hide is no time for other transfers
        layer_PKC[:, KINDS.index("ep")] = 0.0
    layer_PC = layer_PKC.sum(axis=1)
    again_C = (again_VKCG[0, :, :, 1:-1] * shares_G).sum(axis=(0, 2))
    backward_C = layer_PC[Part.INPUT_GRADIENT] + again_C
    if not find_schedule(question.schedule).splits_backward:
        backward_C = backward_C + layer_PC[Part.WEIGHT_GRADIENT]
    windows = (layer_PC[0], backward_C)
    sharding = sharded_layers(question, stages, *windows)
    # the link to the host is its own: it moves while exposed collectives use the others
    offload = offloaded_layers(question, stages, *np.add(windows, sharding))
    none_C = np.zeros_like(again_C)
    return _RankTimes(
        stages.spread(each_VPKCG, shares_G),
        stages.spread(again_VKCG, shares_G),
        *(
            np.stack([spread_over_stages(stages, none_C, part_C, none_C) for part_C in exposed])
            for exposed in (sharding, offload)
        ),
    )


def _of_rank(
    question: TrainingQuestion, stages: StageColumns, values_CS: FloatArray, rank_C: FloatArray
) -> FloatArray:
    """Return what all micro-batches take on one rank of each candidate (C,) [s]."""
    batches_C = question.layouts.micro_batches / copies_of_layers(question.schedule)
    row_C = np.arange(question.layouts.size)
    total_C: FloatArray = batches_C * stages.over_ranks(values_CS)[row_C, rank_C]
    return total_C


def _spread(
    question: TrainingQuestion, costs: MicroBatchCosts, each_VC: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval over the prediction: the engine's residuals, else kernels.

    The clock that a power limit leaves deviates independently of them.
    Devices without calibrations have no upper end, and neither have lower limits.

    Args:
        each_VC: A micro-batch on the busiest rank (V, C) [s].
    """
    low_C, high_C = each_VC[1] / each_VC[0], each_VC[2] / each_VC[0]
    if question.tier == "bound":
        return np.ones_like(low_C), np.full_like(high_C, np.inf)
    moe = question.has_interval_of_moe
    named = [system.device.architecture for system in question.systems]
    ends_S2 = np.array([question.engine.errors(name, moe=moe) for name in named])
    if np.any(ends_S2 != 0.0):
        kernels_C2 = np.stack([low_C, high_C], axis=1)
        low_C, high_C = np.exp(ends_S2)[question.index_C].T
        high_C = high_C * np.exp(scale_error(question))
        if any(match.foreign_device for match in costs.prices.matches):
            # what the kernels of another vendor miss is common to all layers, and in no fitted run
            low_C = np.minimum(low_C, kernels_C2[:, 0])
            high_C = np.maximum(high_C, kernels_C2[:, 1])
    width_C = costs.clock.time_width[costs.index_C]
    if width_C.any():
        low_C = np.exp(-np.hypot(np.log(low_C), width_C))
        high_C = np.exp(np.hypot(np.log(high_C), width_C))
    calibrated_C = np.any(costs.prices.match_CO >= 0, axis=1)[costs.index_C]
    return low_C, np.where(calibrated_C, high_C, np.inf)


def _flop(question: TrainingQuestion, costs: MicroBatchCosts) -> tuple[FloatArray, FloatArray]:
    """Return model FLOP of a step over all GPUs, and those computed again (C,) [FLOP]."""
    layouts, network, shape_C = question.layouts, question.network, costs.index_C
    layers_G = np.array([1.0, *(float(group.count) for group in network.layers), 1.0])
    # every rank of a tensor- or context-parallel group has its own part of a micro-batch
    parts_C = layouts.tp * layouts.cp * layouts.global_batch / layouts.micro_batch
    # products of frozen weights have no gradients of weights
    passes_UG = PASSES * costs.flop_UG - costs.frozen_flop_UG
    model_C = (passes_UG[shape_C] * layers_G).sum(axis=1) * parts_C
    row_C = np.arange(layouts.size)
    again_CG = costs.recomputed_flop_LUG[:, shape_C][layouts.recompute, row_C]
    return model_C, (again_CG * layers_G).sum(axis=1) * parts_C


def layers_of_busiest(question: TrainingQuestion, steps: TrainingSteps, index: int) -> FloatArray:
    """Return the layers of each segment on the rank with most work (G,); fractions for mixed kinds.

    Args:
        index: Position of the candidate.
    """
    stages, rank = steps.stages, int(steps.busiest_C[index])
    embedding, layers, head = (
        float(stages.over_ranks(part_CS)[index, rank])
        for part_CS in (stages.first_CS, stages.layers_CS, stages.last_CS)
    )
    return np.array([embedding, *(layers * group_shares(question.network)), head])
