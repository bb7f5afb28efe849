"""Activations that the forward pass keeps for the backward pass.

Shape legend: C candidates, G segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import (
    ACTIVATION_BYTES,
    MASK_BYTES,
    STATISTICS_BYTES,
    GroupedGemm,
    Saving,
)
from perfatlas.training.work import recomputation
from perfatlas.training.work.operators import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.profiles import TrainingEngine
    from perfatlas.training.work.operators import Row

JOINING: Final = "joining_projection"  # one of each layer of multi-token prediction
OUTPUT: Final = "output_projection"
LAST: Final = "down_projection"
# Shares of their columns that selective recomputation of operators keeps: every second product,
# of queries, keys, values, output, gate, up and down projection, is computed again.
_KEPT_SHARES: Final = {"gate_up_projection": 0.5, "up_projection": 1.0}


def saved_bytes(
    network: Network,
    rows: Sequence[Row],
    layouts: Layouts,
    engine: TrainingEngine,
    modules: recomputation.RecomputedModules,
) -> FloatArray:
    """Return the bytes kept per layer and micro-batch, by recompute level and segment (3, C, G).

    Linear layers, norms and activations keep their inputs; attention keeps queries, keys, values
    and the statistics of its softmax, since the output is the input of the next product. Selective
    recomputation drops the statistics, and the scores of an attention that is not fused; full
    recomputation keeps only the input of the layer. Selective recomputation of operators keeps that
    input, the output of attention and those of every second product; that of all but projections
    keeps that input and the outputs of products and attention outside of the modules; that of
    modules drops what `dropped_share` says. Frozen layers keep no inputs, but their adapters do.

    Args:
        rows: The operators, from `model_operators`.
        layouts: The layouts (C,).
        modules: What selective recomputation runs again.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), equations 1 to 4, for the rules; without
        dropout, and with the widths of the model's own blocks. Llama-3-8B: 34.0 s b h per layer.
        Operators: pytorch/torchtitan@9dec370, `_save_list`. Projections:
        AI-Hypercomputer/maxtext@e591f30c, `get_remat_policy`.
    Limits: Selective recomputation of operators and of all but projections keeps no outputs of
        experts, that of operators none of latent attention. Of quantized products, engines with
        `quantized_activations` keep the quantized input instead of the 16-bit one; transposed
        copies are made when they are needed.
    """
    segments = len(network.layers) + 2
    kept_CG, attention_CG, dropped_CG, ends_CG = np.zeros((4, layouts.size, segments))
    for row in rows:
        if row.part != Part.FORWARD or row.role == "again":
            continue
        own_C = _kept_by_row(network, row, layouts, engine)
        kept_CG[:, row.segment] += own_C
        attention_CG[:, row.segment] += _scores(row.operator, engine)
        if row.recomputed_at == recomputation.NEVER:
            ends_CG[:, row.segment] += own_C
            continue
        recomputed = modules.expert_activations and row.role != "frozen"
        if recomputed and isinstance(row.operator, GroupedGemm):
            dropped_CG[:, row.segment] += row.operator.activation().write_bytes
        dropped_CG[:, row.segment] += own_C * recomputation.dropped_share(row.operator, modules)
    width_C = layouts.tokens * network.hidden_size * ACTIVATION_BYTES
    full_CG = ends_CG + (width_C / layouts.token_ranks)[:, None] * _inputs(rows, segments)
    kept_scores_CG = 0.0 if "core_attn" in modules.modules else attention_CG
    selective_CG = kept_CG - dropped_CG + kept_scores_CG
    if modules.saved != "attention":
        named = modules.saved == "projections"
        selective_CG = full_CG.copy()
        for row in rows:
            if row.part == Part.FORWARD and row.recomputed_at != recomputation.NEVER:
                operator = row.operator
                if named:
                    kept_C = _kept_named(network, row, layouts, engine, modules)
                else:
                    share = _KEPT_SHARES.get(operator.name, 0.0 if operator.multiplies else 1.0)
                    kept_C = share * operator.kept_outputs()
                selective_CG[:, row.segment] += kept_C
    return np.stack([kept_CG + attention_CG, selective_CG, full_CG])


def _inputs(rows: Sequence[Row], segments: int) -> FloatArray:
    """Return the layers of each segment whose input full recomputation keeps (G,)."""
    layers_G = np.ones(segments)
    layers_G[0] = 0.0
    layers_G[-1] = sum(
        float(row.operator.count[0])
        for row in rows
        if row.segment == segments - 1 and row.operator.name == JOINING
    )
    return layers_G


def _kept_by_row(
    network: Network, row: Row, layouts: Layouts, engine: TrainingEngine
) -> FloatArray:
    """Return what an operator keeps with any recomputation but full, over its count (C,) [bytes].

    A frozen product needs its input for no gradient; products of one tensor keep it once.
    """
    operator = row.operator
    if operator.name in recomputation.SAME_INPUT:
        return np.zeros(1)
    saving = Saving(
        layouts.token_ranks,
        quantized=engine.quantized_activations,
        dropout=engine.dropout,
        frozen=row.role == "frozen",
    )
    return operator.count * network.saved(operator, saving)


def _kept_named(
    network: Network,
    row: Row,
    layouts: Layouts,
    engine: TrainingEngine,
    modules: recomputation.RecomputedModules,
) -> FloatArray | float:
    """Return the outputs that selective recomputation of all but projections keeps (C,) [bytes].

    Those of the last product of a layer are not kept, since no gradient needs them. Attention that
    does not run again keeps its output, the input of the next product, and the statistics of its
    softmax.
    """
    operator, attends = row.operator, "core_attn" not in modules.modules
    own_C: FloatArray | float = 0.0
    if attends and operator.name == OUTPUT:
        own_C = _kept_by_row(network, row, layouts, engine)
    if operator.name == LAST or not recomputation.keeps_output(operator, modules):
        return own_C
    if operator.multiplies:  # ranks that add to one output keep a share of it each
        ranks_C = layouts.token_ranks if operator.shard == "row" else 1.0
        return own_C + operator.count * operator.kept_outputs() / ranks_C
    return operator.count * operator.softmax_rows() * STATISTICS_BYTES


def _scores(operator: Operator, engine: TrainingEngine) -> FloatArray | float:
    """Return what only attention without recomputation keeps (C,) [bytes]."""
    if engine.fused_attention:
        return operator.softmax_rows() * STATISTICS_BYTES
    # softmax input and output in 16 bits, and a mask of one byte
    return operator.scores() * (2.0 * ACTIVATION_BYTES + MASK_BYTES)
