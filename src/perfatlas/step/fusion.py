"""Operators that an engine fuses into other kernels, and those that it runs as several kernels.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.networks import ENCODER
from perfatlas.operators import (
    ACTIVATION_BYTES,
    QUANTIZE,
    Attention,
    Collective,
    FloatArray,
    Gemm,
    GroupedGemm,
    Operator,
    Streaming,
    busiest_rank,
    with_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.step.context import StepContext


JOINED: Final = "queries_keys_values"  # a fusion of products that read the same rows
NCHW: Final = "nchw"
CONVERTED: Final = 3.0  # image, weights and output
CONVERTED_BLOCK_BYTES: Final = 1024.0  # a thread block of a copy, which all SMs share
# Kernels that sort rows by expert: two count them and place experts, one clears the expert of each
# row, one copies, one transposes scales.
# Source: vllm 0.11.1, fused_moe/deep_gemm_utils.py, deepgemm_moe_permute() and ep_scatter(), and
# utils/deep_gemm.py.
_SORTING_KERNELS: Final = 5.0


def apply_fusions(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators, with the count of fused ones set to 0 by the engine profile.

    Returns:
        The operators in order. Dynamic quantizations become part of their matrix product.

    Limits: A fused operator takes no time, and the kernel it is fused into does not get slower.
    """
    formats = {op.name: op.compute_format for op in operators if op.multiplies}
    norm_fused_C = _norm_fused(operators, context)
    # of graphs, the scales of quantized activations are part of the network
    separate_share = (
        {}
        if context.network.item
        else {
            name: _separate_quantization(f"{name}_quantize", format_name, context, norm_fused_C)
            for name, format_name in formats.items()
        }
    )
    graph = context.network.item
    fused = fused_kinds(context.profile) if graph else frozenset()
    result: list[Operator] = []
    for operator in joined_projections(operators) if JOINED in fused else operators:
        result.extend(conversions(operator, context.profile))
        if isinstance(operator, Streaming) and {operator.stream, kind_of(operator.name)} & fused:
            result.append(with_fields(operator, count=0.0 * operator.count))
        elif operator.stream_kind == "norm" and not operator.name.startswith(ENCODER):
            result.append(with_fields(operator, count=np.where(norm_fused_C, 0.0, operator.count)))
        elif operator.stream_kind == QUANTIZE:
            gemm = operator.name.removesuffix("_quantize")
            if get_format(formats[gemm]).quantize == "static":
                result.append(with_fields(operator, count=operator.count * separate_share[gemm]))
        elif (
            isinstance(operator, Gemm)
            and operator.name in separate_share
            and get_format(operator.format).quantize == "dynamic"
        ):
            result.append(with_fields(operator, quantizes_input=separate_share[operator.name]))
        else:
            result.append(operator)
    return tuple(result)


def fused_kinds(profile: EngineProfile, *, trains: bool = False) -> frozenset[str]:
    """Return the kinds of operators of a graph that an engine fuses into others.

    Args:
        trains: Whether norms are those of training, whose statistics need all of the output of a
            product before it is normalized.
    """
    return frozenset(
        name
        for fusion in profile.fusions
        for name in fusion.operators
        if not (trains and fusion.into == "product" and name.startswith("norm"))
    )


def joined_projections(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators, with one product for the queries, keys and values of self-attention.

    Of the products of a graph, three per attention are those that have its rows, and the width of
    its heads as both other dimensions.

    Limits: Networks that project to another width than they read keep their products, and so do
        those whose export has one product already.
    """
    joined = list(operators)
    for attention in operators:
        if not isinstance(attention, Attention) or attention.causal:
            continue
        rows = attention.batch * attention.q_len
        width = attention.num_heads * attention.head_dim
        for place, product in enumerate(joined):
            if not isinstance(product, Gemm) or kind_of(product.name) != "linear":
                continue
            fits = (product.m == rows) & (product.n == width) & (product.k == width)
            fits &= (attention.q_len == attention.kv_len) & (product.count >= 3 * attention.count)
            fits &= (attention.num_kv_heads == attention.num_heads) & (attention.count > 0)
            if not np.all(fits):
                continue
            joined[place] = with_fields(product, count=product.count - 3.0 * attention.count)
            one = with_fields(product, n=3.0 * product.n, count=attention.count)
            joined.insert(place, with_fields(one, name=f"{product.name}_{attention.name}"))
            break
    return tuple(joined)


def conversions(product: Operator, profile: EngineProfile) -> tuple[Streaming, ...]:
    """Return the conversions of image, weights and output around a convolution of a graph.

    A kernel of 1 x 1 reads each element of its image once, and multiplies it as it is stored.

    Args:
        product: Any operator; only convolutions on images in NCHW are converted.
    """
    kernels = profile.graph_kernels
    if kernels is None or kernels.layout != NCHW or not isinstance(product, Gemm):
        return ()
    if kind_of(product.name) != "conv":
        return ()
    read = product.m * product.k * product.input_bytes_per_element
    weights = product.n * product.k * product.groups * product.weight_bytes_per_element
    written = product.m * product.n * product.output_bytes_per_element
    whole_C = product.input_bytes_per_element != product.weight_bytes_per_element
    moved = (read + weights + written) / CONVERTED
    return (
        Streaming(
            name=f"layout_{product.name}",
            phase=product.phase,
            count=product.count * CONVERTED * whole_C,
            stream="copy",
            tokens=moved / CONVERTED_BLOCK_BYTES,
            read_bytes=moved,
            write_bytes=moved,
            cold_read_bytes=np.zeros_like(moved),
        ),
    )


def kind_of(name: str) -> str:
    """Return the kind of an operator of a graph, whose operators are numbered."""
    return name.rstrip("0123456789").removesuffix("_")


def split_kernels(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators, with each kernel of those that run as several ones counted.

    Limits: The kernels of an operator share its bytes. Those that read again what another one
        wrote move more, which large steps would show.
    """
    model_type = context.network.model_type
    kernels = {
        separate_kernel.operator: float(separate_kernel.kernels)
        for separate_kernel in context.profile.separate_kernels
        if not separate_kernel.model_types or model_type in separate_kernel.model_types
    }
    return tuple(
        _split(operator, kernels[operator.name])
        if isinstance(operator, Streaming) and operator.name in kernels
        else operator
        for operator in operators
    )


def _split(operator: Streaming, kernels: float) -> Streaming:
    return with_fields(
        operator,
        count=operator.count * kernels,
        read_bytes=operator.read_bytes / kernels,
        write_bytes=operator.write_bytes / kernels,
        cold_read_bytes=operator.cold_read_bytes / kernels,
    )


def contiguous_experts(operators: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators, with the kernels of experts where an engine pads their rows.

    Where it does, fused experts have count 0, and their kernels follow them under the same name.

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
    names = [system.device.architecture for system in context.placement.systems]
    all_C, large_C = (
        np.isin(names, some)[context.placement.index_C]
        for some in (rules.architectures, rules.large_only)
    )
    result: list[Operator] = []
    for op in operators:
        result.append(op)
        if isinstance(op, GroupedGemm) and op.format in rules.formats:
            is_large_C = (op.tokens >= rules.rows) & (op.width() > rules.above_width)
            runs_C = (all_C | (large_C & is_large_C)) & (op.moe_tp < rules.below_moe_tp)
            runs_C &= np.asarray(op.ranks_per_token) == 0.0
            result[-1] = with_fields(op, count=np.where(runs_C, 0.0, op.count))
            result += _contiguous_kernels(op, rules.rows, np.where(runs_C, op.count, 0.0))
    return tuple(result)


def _contiguous_kernels(experts: GroupedGemm, tile: int, count_C: FloatArray) -> Iterator[Operator]:
    """Yield the kernels of the experts of a rank, products first; a tile has `tile` rows."""
    width_C, hidden_C, held_C = experts.width(), experts.hidden, experts.experts / experts.ep
    busiest_C = busiest_rank(
        experts.distribution, experts.tokens, experts.experts, experts.top_k, experts.ep
    )
    share_C = np.minimum(experts.top_k / experts.experts * busiest_C, 1.0)
    sent_C = share_C * experts.tokens * held_C
    active_C = np.maximum(held_C * (1.0 - (1.0 - share_C) ** experts.tokens), 1.0)
    tiles_C = np.ceil((experts.tokens * experts.top_k + held_C * (tile - 1)) / tile)
    buffer_C = tile * tiles_C
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
                m=tile * rows_C,
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


def _separate_quantization(
    name: str, format_name: str, context: StepContext, norm_fused_C: NDArray[np.bool_]
) -> FloatArray:
    """Return 1 where a quantization runs as a separate kernel, else 0 (C,).

    Dynamic quantization is measured and priced with the product it feeds. A norm fused into the
    all-reduce kernel includes only the quantizations that this kernel supports.
    """
    separate_C = np.ones(norm_fused_C.shape)
    model_type = context.network.model_type
    for fusion in context.profile.fusions:
        applies = not fusion.formats or format_name in fusion.formats
        applies &= not fusion.model_types or model_type in fusion.model_types
        if applies and name in fusion.operators:
            with_reduce = format_name in context.profile.all_reduce.norm_fusion_formats
            lost_C = norm_fused_C & (fusion.into == "norm") & (not with_reduce)
            separate_C = np.where(lost_C, separate_C, 0.0)
    return separate_C


def _norm_fused(operators: Sequence[Operator], context: StepContext) -> NDArray[np.bool_]:
    """Return where the all-reduce kernel includes the residual addition and the norm (C,)."""
    rules, tp_C = context.profile.all_reduce, context.plan.tp
    sizes = [
        op.bytes
        for op in operators
        if isinstance(op, Collective) and op.op == "all_reduce" and not op.name.startswith(ENCODER)
    ]
    model_types = rules.norm_fusion_model_types
    if not sizes or (model_types and context.network.model_type not in model_types):
        return np.zeros(tp_C.shape, np.bool_)
    limit_C = np.zeros(tp_C.shape)
    for position, system in enumerate(context.placement.systems):
        limits = rules.norm_fusion_bytes.get(system.device.architecture, {})
        for tp, limit in limits.items():
            limit_C[(context.placement.index_C == position) & (tp_C == tp)] = limit
    fused_C: NDArray[np.bool_] = (tp_C > 1) & (np.maximum.reduce(sizes) <= limit_C)
    return fused_C
