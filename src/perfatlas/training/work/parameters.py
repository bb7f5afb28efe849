"""Parameters of one rank, from the shapes of its operators.

Shape legend: C candidates, G segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.training.work.operators import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.work.operators import Row

_FUSED: Final = {"gate_up_projection": 2.0}  # products of the same input that are stored as one


class RankParameters(NamedTuple):
    """Parameters of one rank, per layer of each segment."""

    # Parameters that all ranks of a tensor-parallel group divide or repeat (C, G)
    dense_CG: FloatArray
    expert_CG: FloatArray  # Parameters of routed experts (C, G)
    # The part of `dense_CG` that has gradients, and low-rank adapters (C, G)
    trained_dense_CG: FloatArray
    trained_expert_CG: FloatArray  # The part of `expert_CG` that has gradients (C, G)
    largest_CG: FloatArray  # Parameters of the largest product, of fused ones each its own (C, G)


def rank_parameters(network: Network, rows: Sequence[Row], layouts: Layouts) -> RankParameters:
    """Return the parameters of one rank.

    Args:
        rows: The operators, from `model_operators`.
        layouts: The layouts (C,).

    Limits: Norms, biases and convolutions are counted in the mean over all layers, and repeated on
        every tensor-parallel rank (below 0.2% of the weights). Products of a graph that share
        weights have an equal part of its parameters each.
    """
    segments = len(network.layers) + 2
    dense_CG, expert_CG, adapters_CG, largest_CG = np.zeros((4, layouts.size, segments))
    whole_C = np.zeros(layouts.size)  # of all layers in products, on one GPU
    for row in rows:
        operator = row.operator
        if row.part != Part.FORWARD or row.role in ("tied", "again") or not operator.weights():
            continue
        each_C = operator.weight_elements()
        held_C = each_C * operator.count
        if row.role == "adapter":
            adapters_CG[:, row.segment] += held_C
            continue
        layers = network.layers[row.segment - 1].count if 0 < row.segment < segments - 1 else 0
        fused = _FUSED.get(operator.name, 1.0)
        matrix_C = (
            np.max([weight.elements() / weight.fused for weight in operator.weights()], axis=0)
            / fused
        )
        largest_CG[:, row.segment] = np.maximum(largest_CG[:, row.segment], matrix_C)
        if operator.routed:
            expert_CG[:, row.segment] += held_C
            ranks_C = layouts.ep * layouts.expert_tp
        else:
            dense_CG[:, row.segment] += held_C
            ranks_C = layouts.tp if operator.tensor_parallel else np.ones(layouts.size)
        whole_C += layers * (held_C * ranks_C)
    counts = network.parameters()
    width = counts.embedding / max(network.embedding_rows, 1)
    dense_CG[:, 0] = np.ceil(network.embedding_rows / layouts.tp) * width
    layers_C = counts.total - counts.embedding - counts.lm_head + 0.0 * whole_C
    if network.item:  # executions of a graph may share weights
        dense_CG[:, 1:-1] *= np.minimum(layers_C / np.maximum(whole_C, 1.0), 1.0)[:, None]
    small_C = np.maximum(layers_C - whole_C, 0.0)
    dense_CG[:, 1:-1] += small_C[:, None] / network.num_layers
    if any(row.role == "adapter" for row in rows):
        return RankParameters(
            dense_CG + adapters_CG, expert_CG, adapters_CG, np.zeros_like(expert_CG), largest_CG
        )
    return RankParameters(dense_CG, expert_CG, dense_CG, expert_CG, largest_CG)
