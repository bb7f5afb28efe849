"""Time and energy of the optimizer on the device, and time of the part that runs on the host.

Shape legend: C candidates, G segments, P products, S pipeline stages, N parts of a cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy import with_energy
from perfatlas.formats import get_format
from perfatlas.machines import price_operators
from perfatlas.operators import Gemm, Phase, Streaming
from perfatlas.training.step import states
from perfatlas.training.step.collective_prices import GroupColumns, collective_times
from perfatlas.training.step.stages import group_shares
from perfatlas.training.work import Part, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.operators import FloatArray, Operator
    from perfatlas.training.step.costs import MicroBatchCosts
    from perfatlas.training.step.question import TrainingQuestion
    from perfatlas.training.step.stages import StageColumns
    from perfatlas.training.work import Row

_ROW_ELEMENTS: Final = 1024.0  # elements of a row of the optimizer's kernels
# Newton-Schulz iterations of Muon, in bf16.
# Source: Jordan et al. 2024; Megatron-LM, `--muon-num-ns-steps`.
ITERATIONS: Final = 5.0
NEWTON_SCHULZ_FORMAT: Final = "bf16"
_FUSED: Final = "qkv_projection"


class OptimizerCost(NamedTuple):
    """Cost of the optimizer on the rank with most parameters, each (C,)."""

    time_s: FloatArray  # Time [s]
    chip_j: FloatArray  # Dynamic energy of the chip at the voltage of the highest clock [J]
    memory_j: FloatArray  # Dynamic energy of memory [J]

    def plus(self, other: OptimizerCost) -> OptimizerCost:
        """Return the cost of both, one after the other."""
        return OptimizerCost(*(column + more for column, more in zip(self, other, strict=True)))


def optimizer_cost(
    question: TrainingQuestion, costs: MicroBatchCosts, stages: StageColumns
) -> OptimizerCost:
    """Return the cost of the optimizer on the rank with most parameters (C,).

    It reads the gradients twice, for their norm and for the update, reads and writes the states,
    and writes the 16-bit weights. Muon also multiplies. Of states on the host, gradients leave and
    weights come back over its link while the host updates what it has, beside the device.
    """
    dense_CR = stages.over_ranks(stages.trained_dense_CS)
    expert_CR = stages.over_ranks(stages.trained_expert_CS)
    own_C = states.sharded_sum(question, dense_CR, expert_CR, 1).max(axis=1)
    states_C = states.optimizer_states(question, stages).max(axis=1)
    if question.engine.master_weights == "stored":  # the weights are the master weights
        states_C = states_C + own_C * states.MASTER_BYTES
    host = question.recipe.optimizer_offload
    cost = _update(question, own_C * (1.0 - host), states_C * (1.0 - host))
    if question.optimizer == "muon":
        cost = cost.plus(newton_schulz(question, costs, stages))
    if host > 0.0:
        host_s_C = _host_s(question, own_C * host, states_C * host)
        cost = cost._replace(time_s=np.maximum(cost.time_s, host_s_C))
    return cost


def _update(
    question: TrainingQuestion, own_C: FloatArray, states_bytes_C: FloatArray
) -> OptimizerCost:
    """Return the cost of the element-wise update of parameters on the device (C,).

    Without master weights it also reads the 16-bit weights.
    """
    read_C = own_C * (states.WEIGHT_BYTES if question.engine.master_weights == "none" else 0.0)
    update = Streaming(
        name="optimizer",
        phase=Phase.FORWARD,
        count=np.ones_like(own_C),
        stream="add",
        tokens=np.maximum(own_C / _ROW_ELEMENTS, 1.0),
        read_bytes=np.zeros_like(own_C),
        write_bytes=states_bytes_C + own_C * states.WEIGHT_BYTES,
        cold_read_bytes=own_C * 2.0 * question.gradient_bytes + states_bytes_C + read_C,
    )
    return _cost_of(question, [update])


def _cost_of(question: TrainingQuestion, operators: Sequence[Operator]) -> OptimizerCost:
    """Return the cost of one execution of each operator (C,)."""
    devices, engine = question.devices(), question.engine
    prices = price_operators(operators, devices, family=engine.kernel_family, tier=question.tier)
    prices = with_energy(operators, prices, devices)
    return OptimizerCost(
        prices.time_s_CO.sum(axis=1) / engine.efficiency_compute,
        prices.chip_energy_j_CO.sum(axis=1),
        prices.memory_energy_j_CO.sum(axis=1),
    )


def _host_s(
    question: TrainingQuestion, own_C: FloatArray, states_bytes_C: FloatArray
) -> FloatArray:
    """Return the time of an update on the host, in pieces that follow one another (C,) [s].

    Source: ZeRO-Offload (arXiv 2101.06840), section 5: transfers overlap the update; from NVMe:
        ZeRO-Infinity (arXiv 2104.07857), section 5.
    """
    link_C = question.devices().gather("host_link_bandwidth")
    out_s_C = own_C * question.gradient_bytes / link_C
    back_s_C = own_C * states.WEIGHT_BYTES / link_C
    update_s_C = 2.0 * states_bytes_C / question.recipe.offload_bandwidth
    longest_s_C: FloatArray = np.maximum(np.maximum(out_s_C, back_s_C), update_s_C)
    return longest_s_C


class _Matrix(NamedTuple):
    """A matrix of weights of a layer, whole."""

    segment: int  # Position of its segment
    short_C: FloatArray  # The shorter side (C,)
    long_C: FloatArray  # The longer side (C,)
    count_C: FloatArray  # Matrices of this shape on a rank, per layer (C,)
    expert: bool  # Whether it belongs to a routed expert


def newton_schulz(
    question: TrainingQuestion, costs: MicroBatchCosts, stages: StageColumns
) -> OptimizerCost:
    """Return the cost of Muon's Newton-Schulz products on the busiest rank (C,).

    Each iteration of a matrix X of a x b (a <= b) multiplies X X^T (2 a^2 b FLOP), its square
    (2 a^3) and the result with X (2 a^2 b). Data-parallel ranks divide the matrices of a stage;
    tensor-parallel ranks gather a matrix and multiply it whole.

    Source: Jordan et al. 2024, "Muon"; Liu et al., "Muon is scalable for LLM training" (arXiv
        2502.16982), section 2.3; Megatron-LM, `--muon-tp-mode duplicated`, `--muon-split-qkv`.
    Limits: Matrices are divided evenly over ranks, but no rank has less than a whole one. With
        ZeRO-1 a rank holds the momenta of its own matrices whole; ZeRO-2 and ZeRO-3 cut all
        parameters into equal shards, whose momenta travel to the ranks of their matrices.
    """
    shares_G = group_shares(question.network)
    ranks = [
        np.where(question.layouts.zero >= 1, ranks_C, 1.0)
        for ranks_C in states.shard_ranks(question)
    ]
    layer_NC, last_NC, longest_NC = np.zeros((3, len(OptimizerCost._fields), question.layouts.size))
    for matrix in _matrices(question, costs):
        each_NC = np.stack(_matrix_cost(question, matrix))
        share_NC = matrix.count_C * each_NC / ranks[matrix.expert]
        if matrix.segment <= len(shares_G):
            layer_NC += shares_G[matrix.segment - 1] * share_NC
        else:  # multi-token prediction, beside the head
            last_NC += share_NC
        longest_NC = np.maximum(longest_NC, np.where(matrix.count_C > 0.0, each_NC, 0.0))
    total_NCS = layer_NC[..., None] * stages.layers_CS + last_NC[..., None] * stages.last_CS
    busiest_NC = np.stack([stages.over_ranks(one_CS).max(axis=1) for one_CS in total_NCS])
    cost = OptimizerCost(*np.maximum(busiest_NC, longest_NC))
    moved_s_C = _gather_s(question, stages, ranks[0]) + _exchange_s(question, stages)
    return cost._replace(time_s=cost.time_s + moved_s_C)


def _matrices(question: TrainingQuestion, costs: MicroBatchCosts) -> Iterator[_Matrix]:
    """Yield the trained matrices of layers; queries, keys and values are apart."""
    shape_C, layouts, one_C = costs.index_C, question.layouts, np.ones(question.layouts.size)
    whole = {"column": (layouts.tp, one_C), "experts": (layouts.expert_tp, one_C)}
    whole |= dict.fromkeys(("row", "row_partial"), (one_C, layouts.tp))
    for row in costs.rows:
        operator = row.operator
        if row.part != Part.FORWARD or row.role not in ("own", "adapter"):
            continue
        rows_ranks, columns_ranks = whole.get(operator.shard, (one_C, one_C))
        for weight in operator.weights() if operator.shard != "vocab" else ():
            rows_C = weight.rows[shape_C] * rows_ranks
            columns_C = weight.columns[shape_C] * columns_ranks
            count_C = np.ones_like(rows_C) if weight.number is None else weight.number[shape_C]
            for share in _parts(question, row):
                expert = operator.routed
                first_C = rows_C * share
                short_C, long_C = np.minimum(first_C, columns_C), np.maximum(first_C, columns_C)
                yield _Matrix(row.segment, short_C, long_C, count_C, expert)


def _parts(question: TrainingQuestion, row: Row) -> tuple[float, ...]:
    """Return the shares of a fused product that are matrices of their own."""
    widths = layer_of(question.network, row.segment).qkv_widths
    if row.operator.name != _FUSED or widths is None:
        return (1.0,)
    queries, keys, values = widths
    whole = queries + keys + values
    return queries / whole, keys / whole, values / whole


def _matrix_cost(question: TrainingQuestion, matrix: _Matrix) -> OptimizerCost:
    """Return the cost of the iterations of a matrix (C,)."""
    element_bytes = get_format(NEWTON_SCHULZ_FORMAT).weight_bytes
    sides = (
        (matrix.short_C, matrix.short_C, matrix.long_C),
        (matrix.short_C, matrix.short_C, matrix.short_C),
        (matrix.short_C, matrix.long_C, matrix.short_C),
    )
    products = [
        Gemm(
            name="newton_schulz",
            phase=Phase.FORWARD,
            count=np.ones_like(m_C),
            shard="replicated",
            m=m_C,
            n=n_C,
            k=k_C,
            format=NEWTON_SCHULZ_FORMAT,
            weight_bytes_per_element=element_bytes,
            input_bytes_per_element=element_bytes,
        )
        for m_C, n_C, k_C in sides
    ]
    return OptimizerCost(*(ITERATIONS * one_C for one_C in _cost_of(question, products)))


def _gather_s(question: TrainingQuestion, stages: StageColumns, ranks_C: FloatArray) -> FloatArray:
    """Return the gathers of momenta that tensor-parallel ranks divide (C,) [s]."""
    layouts = question.layouts
    layers_CS = np.maximum(stages.trained_dense_CS - stages.ends_CS, 0.0)
    whole_C = stages.over_ranks(layers_CS).max(axis=1) * layouts.tp
    bytes_C = np.where(layouts.tp > 1, whole_C * states.WEIGHT_BYTES / ranks_C, 0.0)
    group = GroupColumns(layouts.tp, np.ones_like(layouts.tp), question.index_C)
    time_s_C: FloatArray = collective_times(question, "all_gather", bytes_C, group)[0]
    return time_s_C / question.engine.efficiency_communication


def _exchange_s(question: TrainingQuestion, stages: StageColumns) -> FloatArray:
    """Return the exchange of shards of matrices with ZeRO-2 and ZeRO-3 (C,) [s].

    Momenta travel from their shards to the ranks that multiply them, in 16 bits, and updates back.

    Source: Liu et al. (arXiv 2502.16982), section 2.3: partitioned gradients are gathered to whole
        matrices in bf16.
    """
    layouts = question.layouts
    strides = (layouts.tp, layouts.ep * layouts.expert_tp)
    sizes = (np.maximum(stages.trained_dense_CS - stages.ends_CS, 0.0), stages.trained_expert_CS)
    total_s_C = np.zeros(layouts.size)
    for own_CS, ranks_C, stride_C in zip(sizes, states.shard_ranks(question), strides, strict=True):
        own_C = stages.over_ranks(own_CS).max(axis=1) / ranks_C
        bytes_C = np.where(layouts.zero >= 2, own_C * states.WEIGHT_BYTES, 0.0)
        group = GroupColumns(ranks_C, stride_C, question.index_C)
        total_s_C += 2.0 * collective_times(question, "all_to_all", bytes_C, group)[0]
    return total_s_C / question.engine.efficiency_communication
