"""Operators of one micro-batch on one rank: forward, input gradients and weight gradients.

Shape legend: C candidates. The count of an operator is per layer of its segment.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.networks import HEAD_OPERATORS, StepTokens
from perfatlas.operators import (
    ATTENTION_BACKWARD,
    Collective,
    Convolution,
    Gemm,
    GroupedGemm,
    Phase,
    Scan,
    Streaming,
    with_fields,
)
from perfatlas.parallelism import PlanColumns, shard_operators
from perfatlas.training.recipe import PRETRAINING
from perfatlas.training.work.adapters import adapters_of
from perfatlas.training.work.elementwise import (
    EMBEDDING,
    QUANTIZE,
    accumulation,
    quantized_gradient,
    streaming_gradient,
)
from perfatlas.training.work.recomputation import (
    NEVER,
    NORM_READERS,
    SAME_INPUT,
    SELECTIVE,
    RecomputedModules,
    expert_activation,
    repetition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.networks import ModelFormats, Network, Segment
    from perfatlas.operators import FloatArray, Operator
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.recipe import Recipe

# A backward scan reads the inputs again and writes their gradients.
# Source: assumption; Mamba-2 (arXiv 2405.21060) recomputes states in the backward pass.
SCAN_BACKWARD: Final = 2.5
# A quantized tensor is written along its rows and along its columns: the products of gradients
# multiply along the other dimension. Those of frozen weights do not exist.
# Source: Transformer Engine documentation, "FP8 primer" and "MXFP8": transposed copies.
COPIES: Final = 2.0
# Casts that the norm or the activation before them makes where the scale is known (delayed
# scaling); current scaling reads the whole tensor first.
# Source: Transformer Engine documentation, "FP8 primer"; LayerNormLinear and LayerNormMLP.
_FUSED_CASTS: Final = (
    *NORM_READERS,
    *SAME_INPUT,
    "down_projection",
    "shared_expert_down_projection",
)
# own: an operator with weights of its own, or none. frozen: weights without gradients. adapter: a
# low-rank product beside them. tied: weights that another operator holds. again: runs only when
# selective recomputation repeats it.
Role = Literal["own", "frozen", "adapter", "tied", "again"]


class Part(IntEnum):
    """Part of a training step on one micro-batch."""

    FORWARD = 0
    INPUT_GRADIENT = 1
    WEIGHT_GRADIENT = 2


class Row(NamedTuple):
    """One operator of a segment.

    Args:
        operator: The operator, in the phase whose kernels price it; its count is per layer.
        segment: Position of its segment.
        part: Part of the step.
        recomputed_at: Lowest recompute level at which the backward pass runs it again.
        selective_share: Share of it that selective recomputation runs again, if it does.
        role: What weights it has.
    """

    operator: Operator
    segment: int
    part: Part
    recomputed_at: int = NEVER
    selective_share: float = 1.0
    role: Role = "own"


def repeated_shares(row: Row) -> Iterator[tuple[int, float]]:
    """Yield the recompute levels that repeat an operator of the forward pass, and its shares.

    Args:
        row: The operator.
    """
    for level in range(row.recomputed_at, NEVER):
        if level == SELECTIVE or row.role != "again":
            yield level, row.selective_share if level == SELECTIVE else 1.0


class Work(NamedTuple):
    """What a micro-batch computes.

    Args:
        network: The network.
        formats: Number formats.
        distribution: Routing of tokens to experts.
        modules: What selective recomputation runs again.
        recipe: Adapters, multi-token prediction and packing.
        gradient_bytes: Bytes of an accumulated gradient.
    """

    network: Network
    formats: ModelFormats
    distribution: str
    modules: RecomputedModules = RecomputedModules()
    recipe: Recipe = PRETRAINING
    gradient_bytes: float = 4.0


def model_operators(work: Work, layouts: Layouts) -> tuple[Row, ...]:
    """Return all operators of one micro-batch, segment by segment; collectives are separate.

    Layers of multi-token prediction, with their passes through the head, belong to the segment of
    the head.

    Args:
        work: What the micro-batch computes.
        layouts: Layouts; only sizes that change the shapes on a rank are read (C,).

    Source: Megatron-LM (arXiv 1909.08053) for the division by tensor parallelism; sequence
        parallelism: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2.

    Limits: Kernels of gradients are priced as forward kernels of the transposed shape. The
        quantization of weights, once per step, is not counted; the experts' gradients include
        quantizers as their forward pass does.
    """
    rows: list[Row] = []
    groups = work.network.layers
    last = len(groups) + 1
    for segment in (0, 1, last, *range(2, last)):
        for operator in _rank_operators(work, segment, layouts):
            if segment in (0, last):
                rows += _trained(operator, segment, work)
            else:
                rows += _of_layer(operator, segment, groups[segment - 1], work)
    rows += _predicted_ahead(work, layouts, last)
    return tuple(rows)


def _of_layer(operator: Operator, segment: int, group: Segment, work: Work) -> Iterator[Row]:
    """Yield the passes of an operator of a layer, and of its adapters."""
    level, share = repetition(operator, work.modules, _key_share(group))
    frozen = work.recipe.lora_rank > 0
    for row in passes_of(operator, segment, level, frozen=frozen):
        again = share if row.part == Part.FORWARD else 1.0
        yield row._replace(selective_share=again, role="frozen" if frozen else "own")
    yield from accumulation_of(operator, segment, work)
    if frozen:
        for adapter in adapters_of(operator, work.recipe.lora_rank, work.recipe.lora_targets):
            for row in passes_of(adapter, segment, level):
                yield row._replace(role="adapter")
    moe_act = "moe_act" in work.modules.modules and "moe" not in work.modules.modules
    if isinstance(operator, GroupedGemm) and moe_act:
        yield Row(expert_activation(operator), segment, Part.FORWARD, SELECTIVE, role="again")


def accumulation_of(operator: Operator, segment: int, work: Work) -> Iterator[Row]:
    """Yield the kernel that adds a weight gradient, where products do not add it themselves.

    Args:
        operator: The forward operator.
        segment: Position of its segment.
        work: What the micro-batch computes.
    """
    if work.recipe.fused_weight_gradient or work.recipe.lora_rank > 0:
        return
    if isinstance(operator, Gemm | GroupedGemm):
        added = accumulation(operator, work.gradient_bytes)
        yield Row(added, segment, Part.WEIGHT_GRADIENT)


def _key_share(group: Segment) -> float:
    """Return the share of keys in a fused projection of queries, keys and values."""
    if group.qkv_widths is None:
        return 0.0
    queries, keys, _ = group.qkv_widths
    return keys / (queries + keys * 2)


def _trained(operator: Operator, segment: int, work: Work) -> Iterator[Row]:
    """Yield the passes of the embedding or the head."""
    frozen = work.recipe.lora_rank > 0
    for row in passes_of(operator, segment, NEVER, frozen=frozen):
        yield row._replace(role="frozen" if frozen else "own")
    yield from accumulation_of(operator, segment, work)


def _predicted_ahead(work: Work, layouts: Layouts, last: int) -> Iterator[Row]:
    """Yield the layers of multi-token prediction, whose embedding and head are the model's.

    Source: DeepSeek-V3 (arXiv 2412.19437), section 2.2.
    """
    depth = work.recipe.mtp_depth
    if depth == 0:
        return
    whole = work.network.draft_operators(work.formats, Phase.FORWARD, _tokens(layouts, work.recipe))
    each = tuple(_on_rank(whole, work, layouts))
    for operator in each * depth:
        if operator.name == EMBEDDING or operator.name in HEAD_OPERATORS:
            yield from (row._replace(role="tied") for row in _trained(operator, last, work))
        else:
            yield from _of_layer(operator, last, work.network.layers[-1], work)


def _tokens(layouts: Layouts, recipe: Recipe) -> StepTokens:
    """Return the tokens of a micro-batch; attention stays inside packed documents."""
    length_C = layouts.sequence_length
    if recipe.packed_length:
        length_C = np.minimum(length_C, float(recipe.packed_length))
    return StepTokens(
        batch=layouts.micro_batch * (layouts.sequence_length / length_C),
        q_len=length_C,
        kv_len=length_C,
        head_ranks=layouts.tp,
        logits_rows=layouts.tokens,
    )


def _rank_operators(work: Work, segment: int, layouts: Layouts) -> Iterator[Operator]:
    """Yield the forward operators of a layer of a segment on one rank, without collectives."""
    tokens = _tokens(layouts, work.recipe)
    whole = work.network.segment_operators(segment, work.formats, Phase.FORWARD, tokens)
    yield from _on_rank(whole, work, layouts)


def _on_rank(whole: tuple[Operator, ...], work: Work, layouts: Layouts) -> Iterator[Operator]:
    """Yield operators as one rank executes them."""
    one = np.ones_like(layouts.tp)
    plan = PlanColumns(
        tp=layouts.tp, pp=one, cp=layouts.cp, attention_dp=one, ep=one, moe_tp=one, dp=one
    )
    for operator in shard_operators(whole, plan, work.network):
        if isinstance(operator, Collective) or _cast_before(operator, work):
            continue
        if isinstance(operator, GroupedGemm):
            yield _experts(operator, layouts, work.distribution)
        elif operator.shard == "replicated":
            yield _divide_tokens(operator, layouts.token_ranks)
        elif operator.name == "kv_b_projection" and isinstance(operator, Gemm):
            yield with_fields(operator, m=operator.m / layouts.cp)
        else:
            yield operator


def _cast_before(operator: Operator, work: Work) -> bool:
    """Return whether the kernel before a quantization with a known scale already makes the cast."""
    if work.formats.gemm != "fp8_static" or not isinstance(operator, Streaming):
        return False
    return operator.stream == QUANTIZE and operator.name.removesuffix("_quantize") in _FUSED_CASTS


def _experts(operator: GroupedGemm, layouts: Layouts, distribution: str) -> GroupedGemm:
    """Return the experts of one rank, over the rows that were sent to it.

    A rank of a serving engine sorts the tokens of its whole group; here each row has been sent to
    its expert, so that the product has one expert per row and only the rank's own experts.
    """
    sent_C = layouts.tokens / layouts.token_ranks * layouts.expert_tp * operator.top_k
    return with_fields(
        operator,
        tokens=sent_C,
        experts=operator.experts / layouts.ep,
        top_k=np.ones_like(sent_C),
        ep=np.ones_like(sent_C),
        moe_tp=layouts.expert_tp,
        distribution=distribution,
    )


def _divide_tokens(operator: Operator, ranks: FloatArray) -> Operator:
    """Return an operator over the tokens of one rank with sequence parallelism."""
    if isinstance(operator, Streaming):
        return with_fields(
            operator,
            tokens=operator.tokens / ranks,
            read_bytes=operator.read_bytes / ranks,
            write_bytes=operator.write_bytes / ranks,
        )
    if isinstance(operator, Gemm):
        return with_fields(operator, m=operator.m / ranks)
    return operator


def passes_of(
    operator: Operator, segment: int, level: int, *, frozen: bool = False
) -> Iterator[Row]:
    """Yield the forward operator and its gradients, without those of frozen weights.

    Args:
        operator: The forward operator.
        segment: Position of its segment.
        level: Lowest recompute level at which the backward pass runs it again.
        frozen: Whether its weights have no gradients.
    """
    copies = 1.0 if frozen else COPIES
    if isinstance(operator, Streaming) and operator.stream == QUANTIZE:
        written = with_fields(operator, write_bytes=copies * operator.write_bytes)
        yield Row(written, segment, Part.FORWARD, level)
        return
    yield Row(operator, segment, Part.FORWARD, level)
    match operator:
        case Gemm():
            if get_format(operator.format).quantize != "none":
                yield Row(quantized_gradient(operator, copies), segment, Part.INPUT_GRADIENT)
            yield Row(_input_gradient(operator), segment, Part.INPUT_GRADIENT)
            if not frozen:
                yield Row(_weight_gradient(operator), segment, Part.WEIGHT_GRADIENT)
        case GroupedGemm():
            yield Row(operator, segment, Part.INPUT_GRADIENT)
            if not frozen:
                yield Row(operator, segment, Part.WEIGHT_GRADIENT)
        case Streaming() if frozen and operator.stream == EMBEDDING:
            return
        case Streaming():
            yield Row(streaming_gradient(operator), segment, Part.INPUT_GRADIENT)
        case Scan() | Convolution():
            count = SCAN_BACKWARD * operator.count
            yield Row(with_fields(operator, count=count), segment, Part.INPUT_GRADIENT)
        case _:
            count = ATTENTION_BACKWARD * operator.count
            yield Row(with_fields(operator, count=count), segment, Part.INPUT_GRADIENT)


def _input_gradient(operator: Gemm) -> Gemm:
    """Return dX[m, k] = dY[m, n] W^T[n, k]."""
    return with_fields(operator, n=operator.k, k=operator.n)


def _weight_gradient(operator: Gemm) -> Gemm:
    """Return dW[n, k] = dY^T[n, m] X[m, k]."""
    return with_fields(
        operator,
        m=operator.n,
        n=operator.k,
        k=operator.m,
        weight_bytes_per_element=operator.input_bytes_per_element,
    )
