"""Embedding tables that data-parallel ranks divide: what they exchange, and their memory.

Groups of ep ranks hold whole tables, of which expert_tp ranks divide the rows. Tables are in 32
bits; the backward kernel updates the rows that were looked up, by row-wise Adagrad, so that they
have no gradients in memory and no part in the optimizer.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import EMBEDDING_BAG, Collective, Phase, Streaming
from perfatlas.parallelism import copied_bytes, hold_tables, shard_operators
from perfatlas.training.work.communication import Exchange
from perfatlas.training.work.operators import Part, Work, plan_of, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.operators import FloatArray, Operator
    from perfatlas.training.layouts import Layouts

# Row-wise Adagrad keeps one sum of squares per row.
# Source: pytorch.org/FBGEMM, SplitTableBatchedEmbeddingBagsCodegen: the backward operator updates
# tables, of 32 bits by default; EmbOptimType.EXACT_ROWWISE_ADAGRAD.
ROW_STATE_BYTES: Final = 4.0
_SEGMENT: Final = 1  # of all operators of a graph
_BACK: Final = {"all_to_all": "all_to_all", "reduce_scatter": "all_gather"}


def table_exchanges(work: Work, layouts: Layouts) -> Iterator[Exchange]:
    """Yield what ranks exchange for their lookups, and in the backward pass for the gradients.

    Args:
        layouts: The layouts (C,).

    Source: Mudigere et al. 2022 (arXiv 2104.05158): gradients take the way of sums back, and those
        of tables that all ranks hold are reduced.
    Limits: Nothing runs beside them, where TorchRec's pipeline exchanges indices of the next batch.
    """
    if not work.network.tables:
        return
    whole, plan = _operators(work, layouts), plan_of(work.network, layouts)
    if np.any(plan.attention_dp > 1.0):
        yield Exchange(
            name=f"{EMBEDDING_BAG}_all_reduce",
            op="all_reduce",
            bytes_C=copied_bytes(whole) + np.zeros_like(plan.tp),
            ranks_C=plan.attention_dp,
            stride_C=plan.tp,
            segment=_SEGMENT,
            part=Part.INPUT_GRADIENT,
            kind="ep",
        )
    for sent in shard_operators(whole, plan, work.network, balanced_tables=work.balanced_tables):
        if not isinstance(sent, Collective):
            continue
        forward = Exchange(
            name=sent.name,
            op=sent.op,
            bytes_C=np.where(sent.count > 0.0, sent.bytes, 0.0),
            ranks_C=sent.ranks,
            stride_C=sent.stride,
            segment=_SEGMENT,
            part=Part.FORWARD,
            kind="ep",
        )
        yield forward
        if "indices" not in sent.name:
            name, back = f"{sent.name}_gradient", _BACK[sent.op]
            yield forward._replace(name=name, op=back, part=Part.INPUT_GRADIENT)


def table_bytes(work: Work, layouts: Layouts) -> tuple[FloatArray, FloatArray]:
    """Return the weights and the optimizer states of the tables of a rank, each (C,) [bytes].

    Args:
        layouts: The layouts (C,).
    """
    weights_C, states_C = np.zeros((2, layouts.size))
    if work.network.tables:
        for hold_table in hold_tables(_operators(work, layouts), plan_of(work.network, layouts)):
            if isinstance(hold_table, Streaming):
                rows_C = hold_table.count * hold_table.table_rows
                weights_C = weights_C + rows_C * hold_table.row_bytes
                states_C = states_C + rows_C * ROW_STATE_BYTES
    return weights_C, states_C


def _operators(work: Work, layouts: Layouts) -> tuple[Operator, ...]:
    tokens = tokens_of(layouts, work.recipe)
    return work.network.segment_operators(_SEGMENT, work.formats, Phase.FORWARD, tokens)
