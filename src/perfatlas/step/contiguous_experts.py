"""Experts whose rows lie one after another, padded to whole row tiles, as DeepGEMM takes them.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import (
    ACTIVATION_BYTES,
    QUANTIZE,
    Gemm,
    GroupedGemm,
    Streaming,
    busiest_rank,
    most_active_experts,
    with_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import ContiguousExperts
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.context import StepContext


# Kernels that sort rows by expert: two count them and place experts, one clears the expert of each
# row, one copies, one transposes scales.
# Source: vllm 0.11.1, fused_moe/deep_gemm_utils.py, deepgemm_moe_permute() and ep_scatter(), and
# utils/deep_gemm.py.
_SORTING_KERNELS: Final = 5.0


def contiguous_experts(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators, with the kernels of experts where an engine pads their rows.

    Where it does, fused experts have count 0; both products, the kernels that sort, activate and
    quantize rows follow them under the same name.

    Source: vllm 0.11.1, fused_moe/deep_gemm_moe.py, DeepGemmExperts.apply(): as the host does not
        know the rows of an expert, buffers hold those of all tokens and a tile less one row for
        each expert of the rank. Rows that stay empty are not marked, so that all are multiplied.

    Limits: Experts with tokens have as many tiles each, give or take one, and the products of those
        with as many tiles are priced as a dense one of their rows. Not applied to rows that an
        all-to-all has sent, which other kernels take.
    """
    rules = context.profile.contiguous_experts
    if rules is None or context.tier == "bound":
        return tuple(operators)
    result: list[Operator] = []
    for operator in operators:
        if not isinstance(operator, GroupedGemm) or operator.format not in rules.formats:
            result.append(operator)
            continue
        runs_C = _runs(operator, rules, context)
        result.append(with_fields(operator, count=np.where(runs_C, 0.0, operator.count)))
        result += _kernels(operator, rules, np.where(runs_C, operator.count, 0.0))
    return tuple(result)


def _runs(
    experts: GroupedGemm, rules: ContiguousExperts, context: StepContext
) -> NDArray[np.bool_]:
    """Return where the engine runs experts on contiguous rows (C,)."""
    names = [system.device.architecture for system in context.placement.systems]
    index_C = context.placement.index_C
    large_C = (experts.tokens >= rules.rows) & (experts.width() > rules.above_width)
    of_any_C = np.isin(names, rules.architectures)[index_C]
    of_large_C = np.isin(names, rules.large_only)[index_C] & large_C
    held_C = np.asarray(experts.ranks_per_token) == 0.0
    few_C = experts.moe_tp < rules.below_moe_tp
    runs_C: NDArray[np.bool_] = (of_any_C | of_large_C) & held_C & few_C
    return runs_C


def _kernels(
    experts: GroupedGemm, rules: ContiguousExperts, count_C: FloatArray
) -> Iterator[Operator]:
    """Yield the kernels of the experts of a rank, products first."""
    width_C, hidden_C, held_C = experts.width(), experts.hidden, experts.experts / experts.ep
    busiest_C = busiest_rank(
        experts.distribution, experts.tokens, experts.experts, experts.top_k, experts.ep
    )
    share_C = np.minimum(experts.top_k / experts.experts * busiest_C, 1.0)
    sent_C = share_C * experts.tokens * held_C
    active_C = most_active_experts(
        experts.distribution, experts.tokens, experts.experts, experts.top_k, experts.ep
    )
    active_C = np.maximum(active_C, 1.0)
    buffer_C = experts.tokens * experts.top_k + held_C * (rules.rows - 1)
    buffer_C = rules.rows * np.ceil(buffer_C / rules.rows)
    tiles_C = buffer_C / rules.rows
    # of the experts with tokens, some have one tile more than the others
    deep_C = np.maximum(np.floor(tiles_C / active_C), 1.0)
    deeper_C = np.maximum(tiles_C - deep_C * active_C, 0.0)
    into_C = (experts.matrices - 1) * width_C
    element_bytes = experts.input_bytes_per_element
    for columns_C, inner_C in ((into_C, hidden_C), (hidden_C, width_C)):
        for alike_C, rows_C in ((active_C - deeper_C, deep_C), (deeper_C, deep_C + 1.0)):
            yield Gemm(
                name=experts.name,
                phase=experts.phase,
                count=np.where(alike_C > 0.0, count_C, 0.0),
                shard=experts.shard,
                m=rules.rows * rows_C,
                n=np.where(alike_C > 0.0, alike_C, 1.0) * columns_C,
                k=inner_C,
                format=experts.format,
                weight_bytes_per_element=experts.weight_bytes_per_element,
                input_bytes_per_element=element_bytes,
            )
    tokens_C, wide = experts.tokens * hidden_C, ACTIVATION_BYTES
    copied_C = sent_C * hidden_C
    # stream, kernels, rows, bytes read and written
    for stream, kernels, rows_C, read_C, written_C in (
        (QUANTIZE, 1.0, experts.tokens, tokens_C * wide, tokens_C * element_bytes),
        ("permute", _SORTING_KERNELS, sent_C, copied_C * element_bytes, copied_C * element_bytes),
        ("activation", 1.0, buffer_C, buffer_C * into_C * wide, buffer_C * width_C * wide),
        (QUANTIZE, 1.0, buffer_C, buffer_C * width_C * wide, buffer_C * width_C * element_bytes),
        ("permute", 1.0, experts.tokens, copied_C * wide, tokens_C * wide),
    ):
        yield Streaming(
            name=experts.name,
            phase=experts.phase,
            count=count_C * kernels,
            shard=experts.shard,
            stream=stream,
            tokens=rows_C,
            read_bytes=read_C / kernels,
            write_bytes=written_C / kernels,
            cold_read_bytes=0.0 * read_C,
        )
