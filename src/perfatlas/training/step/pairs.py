"""Forward passes that run beside backward passes of other micro-batches, as stages of a pipeline.

While the experts of one micro-batch compute, tokens of the other one travel. The kernels that move
tokens keep SMs and memory bandwidth of their own, which computation lacks.

Shape legend: C candidates, U distinct shapes, S pipeline stages, D distinct pairs, N layers of a
pair, G segments, 6 computing and 4 communicating parts of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines import communication_share
from perfatlas.operators import BOUND_MEMORY
from perfatlas.step.overlap import contended_rate
from perfatlas.training.layouts import distinct_rows
from perfatlas.training.pairs import COMMUNICATION_PARTS, COMPUTE_PARTS, PairParts, pair_times
from perfatlas.training.step.costs import MAX_CONTENTION, micro_batch_costs
from perfatlas.training.step.stages import group_shares
from perfatlas.training.work import Part

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns

# Of each part of a step: the computing part of attention and that of experts.
_OF_ATTENTION: Final = {
    Part.FORWARD: COMPUTE_PARTS.index("attention_forward"),
    Part.INPUT_GRADIENT: COMPUTE_PARTS.index("attention_input_gradient"),
    Part.WEIGHT_GRADIENT: COMPUTE_PARTS.index("attention_weight_gradient"),
}
_OF_EXPERTS: Final = {
    Part.FORWARD: COMPUTE_PARTS.index("experts_forward"),
    Part.INPUT_GRADIENT: COMPUTE_PARTS.index("experts_input_gradient"),
    Part.WEIGHT_GRADIENT: COMPUTE_PARTS.index("experts_weight_gradient"),
}
# Gradients of the experts' outputs travel to the experts (the backward pass of a combine), those of
# their inputs travel back.
_TRANSFERS: Final = {
    ("dispatch", Part.FORWARD): COMMUNICATION_PARTS.index("dispatch_forward"),
    ("combine", Part.FORWARD): COMMUNICATION_PARTS.index("combine_forward"),
    ("dispatch", Part.INPUT_GRADIENT): COMMUNICATION_PARTS.index("combine_backward"),
    ("combine", Part.INPUT_GRADIENT): COMMUNICATION_PARTS.index("dispatch_backward"),
}
_EXPERTS: Final = ("experts", "shared_expert_")
# A token that travels is read once and written once on every rank.
_READ_AND_WRITTEN: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class LayerParts:
    """Parts of a mean layer on each distinct shape."""

    # Computing parts alone, with the communication that they wait for, in the order of
    # `COMPUTE_PARTS` (U, 6) [s]
    compute_s_U6: FloatArray
    memory_bound_U6: FloatArray  # Share of their time that memory bandwidth bounds (U, 6)
    # Transfers of tokens alone, in the order of `COMMUNICATION_PARTS` (U, 4) [s]
    transfer_s_U4: FloatArray
    # Memory traffic of the transfers while they run (U,) [bytes/s]
    transfer_bytes_per_s_U: FloatArray


def layer_parts(question: TrainingQuestion, costs: MicroBatchCosts) -> LayerParts:
    """Return the parts of the mean layer of each distinct shape.

    Limits: Layers without experts count as attention. Parts of collectives of tensor and context
        parallelism that nothing hides belong to attention.
    """
    shares_G = np.concatenate([[0.0], group_shares(question.network), [0.0]])
    shapes = costs.flop_UG.shape[0]
    compute_s_U6, memory_s_U6 = np.zeros((2, shapes, len(COMPUTE_PARTS)))
    transfer_s_U4 = np.zeros((shapes, len(COMMUNICATION_PARTS)))
    bytes_U = np.zeros(shapes)
    for column, row in enumerate(costs.rows):
        if row.role == "again":
            continue
        time_s_U = costs.prices.time_s_CO[:, column] * row.operator.count * shares_G[row.segment]
        between = row.operator.routed or row.operator.name.startswith(_EXPERTS)
        index = (_OF_EXPERTS if between else _OF_ATTENTION)[row.part]
        compute_s_U6[:, index] += time_s_U
        bound_U = costs.prices.code_CO[:, column] == BOUND_MEMORY
        memory_s_U6[:, index] += np.where(bound_U, time_s_U, 0.0)
    for column, exchange in enumerate(costs.exchanges):
        share = shares_G[exchange.segment]
        if exchange.op in ("dispatch", "combine"):
            transfer_s_U4[:, _TRANSFERS[exchange.op, exchange.part]] += (
                costs.exchange_s_UE[:, column] * share
            )
            bytes_U += _READ_AND_WRITTEN * exchange.bytes_C * share
        else:
            compute_s_U6[:, _OF_ATTENTION[exchange.part]] += costs.exposed_s_UE[:, column] * share
    return LayerParts(
        compute_s_U6=compute_s_U6,
        memory_bound_U6=_ratio(memory_s_U6, compute_s_U6),
        transfer_s_U4=transfer_s_U4,
        transfer_bytes_per_s_U=_ratio(bytes_U, transfer_s_U4.sum(axis=1)),
    )


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part/whole, 0 where the whole is 0."""
    share: FloatArray = np.where(whole > 0.0, part / np.where(whole > 0.0, whole, 1.0), 0.0)
    return share


def paired_stages(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    stages: StageColumns,
    kernels_PCS: FloatArray,
    launched_PCS: FloatArray,
) -> FloatArray:
    """Return forward passes of stages beside backward ones of their ranks' others (C, S) [s].

    The layers that both stages have run as pairs; what a stage has beyond them, the embedding and
    the head run one after the other.

    Args:
        stages: The pipeline stages; a rank holds stages s and P - 1 - s.
        kernels_PCS: Kernels of each part of a micro-batch alone, with recomputation (P, C, S) [s].
        launched_PCS: Their launches by the host, for which pairs wait (P, C, S) [s].

    Source: DeepSeek-AI, arXiv 2412.19437, section 3.2.1: a layer is divided into attention,
        dispatch, experts and combine, and pairs of layers alternate them.
    """
    pp_C = question.layouts.pp
    layers_CS = np.minimum(stages.layers_CS, _opposite(stages.layers_CS, pp_C))
    alone_CS, least_CS = (
        one_PCS[0] + _opposite(one_PCS[1:].sum(axis=0), pp_C)
        for one_PCS in (kernels_PCS, launched_PCS)
    )
    saved_CS = pair_savings(question, costs, layers_CS)
    pair_s_CS: FloatArray = np.maximum(alone_CS - saved_CS, least_CS)
    return pair_s_CS


def overlapped_experts_s(
    question: TrainingQuestion,
    costs: MicroBatchCosts,
    waits_s_C: FloatArray,
    spare_s_C: FloatArray,
) -> FloatArray:
    """Return what pairs of passes save in a step of a schedule other than DualPipe (C,) [s].

    After its first forward passes a rank runs one forward and one backward pass in turn, as a pair.
    The first rank of a pipeline has fewest pairs: 2 (P - 1) + (v - 1) P + 1 of its m v forward
    passes come before; without a pipeline one does.

    Args:
        question: The candidates; an interleaved schedule, or no pipeline.

    Source: Megatron-LM, `overlap_moe_expert_parallel_comm`; warm-up passes: arXiv 2104.04473 and
        one more so that a forward pass is at hand.
    Limits: Stages are equal, so that all ranks gain as much as the first.
    """
    layouts = question.layouts
    chunks_C = layouts.pp * layouts.vpp
    mean_C = question.network.num_layers / chunks_C
    layers_C = np.maximum(np.round(mean_C), 1.0)
    saved_s_C = pair_savings(question, costs, layers_C[:, None])[:, 0] * mean_C / layers_C
    before_C = 2.0 * (layouts.pp - 1.0) + (layouts.vpp - 1.0) * layouts.pp + 1.0
    passes_C = layouts.micro_batches * layouts.vpp
    pairs_C = np.maximum(passes_C - before_C, 0.0)
    each_s_C = np.minimum(saved_s_C + waits_s_C / passes_C, spare_s_C / passes_C)
    return each_s_C * pairs_C


def _opposite(values_CS: FloatArray, pp_C: FloatArray) -> FloatArray:
    """Return the value of stage P - 1 - s of each candidate (C, S); 0 beyond its last stage."""
    position_S = np.arange(values_CS.shape[1])
    from_CS = pp_C[:, None].astype(np.int64) - 1 - position_S
    taken_CS = np.take_along_axis(values_CS, np.maximum(from_CS, 0), axis=1)
    return np.where(from_CS >= 0, taken_CS, 0.0)


def pair_savings(
    question: TrainingQuestion, costs: MicroBatchCosts, layers_CS: FloatArray
) -> FloatArray:
    """Return what pairs of passes save over one pass after the other (C, S) [s].

    Limits: Pairs do not hide transfers between stages, nor collectives of recomputed layers.
    """
    row_CS = np.broadcast_to(np.arange(question.layouts.size)[:, None], layers_CS.shape)
    keys_R3 = np.stack(
        [
            costs.index_C[row_CS].ravel(),
            question.layouts.recompute[row_CS].ravel(),
            layers_CS.astype(np.int64).ravel(),
        ],
        axis=1,
    )
    first_D, which_R = distinct_rows(keys_R3)
    keys_D3 = keys_R3[first_D]
    parts = layer_parts(question, costs)
    saved_s_D = np.zeros(len(keys_D3))
    for layers in np.unique(keys_D3[:, 2]).tolist():
        at_D = np.flatnonzero(keys_D3[:, 2] == layers)
        if layers > 0:
            device_D = row_CS.ravel()[first_D[at_D]]
            shape_D, level_D = keys_D3[at_D, 0], keys_D3[at_D, 1]
            rate_D6 = _rates(question, parts, shape_D, device_D)
            again_s_DG = costs.recomputed_s[0].sum(axis=1)[level_D, shape_D, 1:-1]
            again_s_D = (again_s_DG * group_shares(question.network)).sum(axis=1)
            exposed = pair_times(_pairs(parts, shape_D, layers, rate_D6, again_s_D))
            transfer_s_D = parts.transfer_s_U4[shape_D].sum(axis=1)
            saved_s_D[at_D] = layers * transfer_s_D - exposed.exposed_s_C
    saved_s_CS: FloatArray = saved_s_D[which_R.reshape(-1)].reshape(layers_CS.shape)
    return saved_s_CS


def pair_of_layers(question: TrainingQuestion, layers: int) -> PairParts:
    """Return the overlapped layers of a pair of the first candidate, without recomputation."""
    costs = micro_batch_costs(question)
    parts, first_D = layer_parts(question, costs), costs.index_C[:1]
    rate_D6 = _rates(question, parts, first_D, np.zeros(1, np.int64))
    return _pairs(parts, first_D, layers, rate_D6, np.zeros(1))


def _pairs(
    parts: LayerParts, shape_D: IntArray, layers: int, rate_D6: FloatArray, again_s_D: FloatArray
) -> PairParts:
    """Return pairs of equal layers, with recomputation before the gradients of attention."""
    compute_s_D6 = parts.compute_s_U6[shape_D]
    compute_s_D6[:, _OF_ATTENTION[Part.INPUT_GRADIENT]] += again_s_D

    def of_layers(values_DK: FloatArray) -> FloatArray:
        return np.repeat(values_DK[:, None], layers, axis=1)

    return PairParts(
        compute_s_CN6=of_layers(compute_s_D6),
        communication_s_CN4=of_layers(parts.transfer_s_U4[shape_D]),
        compute_rate_CN6=of_layers(rate_D6),
        transfer_rate_C=np.ones(len(shape_D)),
    )


def _rates(
    question: TrainingQuestion, parts: LayerParts, shape_D: IntArray, candidate_D: IntArray
) -> FloatArray:
    """Return the speed of computing parts beside transfers of tokens over that alone (D, 6)."""
    memory_bound_D6 = parts.memory_bound_U6[shape_D]
    if question.tier == "bound":
        return np.ones_like(memory_bound_D6)
    devices = question.devices()
    taken_D = communication_share(devices, question.engine.dispatcher_sms)[candidate_D]
    bandwidth_D = (
        parts.transfer_bytes_per_s_U[shape_D] / devices.gather("memory_bandwidth")[candidate_D]
    )
    rate_D6: FloatArray = contended_rate(
        memory_bound_D6,
        np.minimum(taken_D, MAX_CONTENTION)[:, None],
        np.minimum(bandwidth_D, MAX_CONTENTION)[:, None],
    )
    return rate_D6
