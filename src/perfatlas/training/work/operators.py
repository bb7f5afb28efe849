"""Operators of one micro-batch on one rank: forward, input gradients and weight gradients.

Shape legend: C candidates. The count of an operator is per layer of its segment.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.networks import HEAD_OPERATORS, StepTokens
from perfatlas.parallelism import PlanColumns, shard_operators
from perfatlas.training.recipe import PRETRAINING
from perfatlas.training.work import recomputation
from perfatlas.training.work.adapters import adapters_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.networks import ModelFormats, Network, Segment
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.recipe import Recipe

# Casts that the norm or the activation before them makes where the scale is known (delayed
# scaling); current scaling reads the whole tensor first.
# Source: Transformer Engine documentation, "FP8 primer"; LayerNormLinear and LayerNormMLP.
_FUSED_CASTS: Final = (
    *recomputation.NORM_READERS,
    *recomputation.SAME_INPUT,
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
    """One operator of a segment."""

    operator: (
        operators.Operator
    )  # The operator, in the phase whose kernels price it; its count is per layer
    segment: int  # Position of its segment
    part: Part  # Part of the step
    recomputed_at: int = (
        recomputation.NEVER
    )  # Lowest recompute level at which the backward pass runs it again
    selective_share: float = 1.0  # Share of it that selective recomputation runs again, if it does
    role: Role = "own"  # What weights it has


def repeated_shares(row: Row) -> Iterator[tuple[int, float]]:
    """Yield the recompute levels that repeat an operator of the forward pass, and its shares."""
    for level in range(row.recomputed_at, recomputation.NEVER):
        if level == recomputation.SELECTIVE or row.role != "again":
            yield level, row.selective_share if level == recomputation.SELECTIVE else 1.0


class Work(NamedTuple):
    """What a micro-batch computes."""

    network: Network
    formats: ModelFormats  # Number formats
    distribution: str  # Routing of tokens to experts
    modules: recomputation.RecomputedModules = (
        recomputation.RecomputedModules()
    )  # What selective recomputation runs again
    recipe: Recipe = PRETRAINING  # Adapters, multi-token prediction and packing
    gradient_bytes: float = 4.0  # Bytes of an accumulated gradient
    balanced_tables: bool = False  # Whether lookups are the least of all placements of tables


def model_operators(work: Work, layouts: Layouts) -> tuple[Row, ...]:
    """Return all operators of one micro-batch, segment by segment; collectives are separate.

    Layers of multi-token prediction, with their passes through the head, belong to the segment of
    the head.

    Args:
        layouts: Layouts; only sizes that change the shapes on a rank are read (C,).

    Source: Megatron-LM (arXiv 1909.08053) for the division by tensor parallelism; sequence
        parallelism: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2.

    Limits: Kernels of gradients are priced as forward kernels of the transposed shape. The
        quantization of weights, once per step, is not counted; the experts' gradients include
        quantizers as their forward pass does.
    """
    rows: list[Row] = []
    groups = work.network.layers
    last, tokens = len(groups) + 1, tokens_of(layouts, work.recipe)
    for segment in (0, 1, last, *range(2, last)):
        whole = work.network.segment_operators(
            segment, work.formats, operators.Phase.FORWARD, tokens
        )
        for operator in _on_rank(whole, work, layouts):
            if segment in (0, last):
                rows += _trained(operator, segment, work)
            else:
                rows += _of_layer(operator, segment, groups[segment - 1], work)
    rows += _predicted_ahead(work, layouts, last)
    return tuple(rows)


def _of_layer(
    operator: operators.Operator, segment: int, group: Segment, work: Work
) -> Iterator[Row]:
    """Yield the passes of an operator of a layer, and of its adapters."""
    key_share = 0.0  # of a fused projection of queries, keys and values
    if group.qkv_widths is not None:
        queries, keys, _ = group.qkv_widths
        key_share = keys / (queries + keys * 2)
    level, share = recomputation.repetition(operator, work.modules, key_share)
    yield from _trained(operator, segment, work, level, share)
    if work.recipe.lora_rank > 0:
        for adapter in adapters_of(operator, work.recipe.lora_rank, work.recipe.lora_targets):
            for row in passes_of(adapter, segment, level):
                yield row._replace(role="adapter")
    if work.modules.expert_activations and isinstance(operator, operators.GroupedGemm):
        yield Row(
            operator.activation(), segment, Part.FORWARD, recomputation.SELECTIVE, role="again"
        )


def accumulation_of(operator: operators.Operator, segment: int, work: Work) -> Iterator[Row]:
    """Yield the kernel that adds a weight gradient, where products do not add it themselves.

    Source: Megatron-LM, `--no-gradient-accumulation-fusion`: a product writes the 16-bit gradient
        of a micro-batch, which another kernel reads and adds.
    """
    weights = operator.weights()
    if not weights or work.recipe.fused_weight_gradient or work.recipe.lora_rank > 0:
        return
    elements_C = operator.weight_elements()
    added = operators.Streaming(
        name=f"{operator.name}_accumulation",
        phase=operator.phase,
        count=operator.count,
        shard=operator.shard,
        stream="add",
        tokens=elements_C / weights[0].columns,
        read_bytes=elements_C * (operators.ACTIVATION_BYTES + work.gradient_bytes),
        write_bytes=elements_C * work.gradient_bytes,
        cold_read_bytes=0.0 * elements_C,
    )
    yield Row(added, segment, Part.WEIGHT_GRADIENT)


def _trained(
    operator: operators.Operator,
    segment: int,
    work: Work,
    level: int = recomputation.NEVER,
    share: float = 1.0,
) -> Iterator[Row]:
    """Yield the passes of an operator, of which selective recomputation repeats a share."""
    frozen = work.recipe.lora_rank > 0
    backward = work.network.backward(operator, frozen=frozen)
    for row in passes_of(operator, segment, level, frozen=frozen, backward=backward):
        again = share if row.part == Part.FORWARD else 1.0
        yield row._replace(selective_share=again, role="frozen" if frozen else "own")
    yield from accumulation_of(operator, segment, work)


def _predicted_ahead(work: Work, layouts: Layouts, last: int) -> Iterator[Row]:
    """Yield the layers of multi-token prediction, whose embedding and head are the model's.

    Source: DeepSeek-V3 (arXiv 2412.19437), section 2.2.
    """
    depth = work.recipe.mtp_depth
    if depth == 0:
        return
    whole = work.network.draft_operators(
        work.formats, operators.Phase.FORWARD, tokens_of(layouts, work.recipe)
    )
    rows = tuple(_on_rank(whole, work, layouts))
    for operator in rows * depth:
        if operator.name == operators.EMBEDDING or operator.name in HEAD_OPERATORS:
            yield from (row._replace(role="tied") for row in _trained(operator, last, work))
        else:
            yield from _of_layer(operator, last, work.network.layers[-1], work)


def tokens_of(layouts: Layouts, recipe: Recipe) -> StepTokens:
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


def plan_of(network: Network, layouts: Layouts) -> PlanColumns:
    """Return the plan that divides operators, of which experts are divided later.

    Args:
        layouts: The layouts (C,).
    """
    column = np.ones_like(layouts.tp)
    ep, inside = (layouts.ep, layouts.expert_tp) if network.tables else (column, column)
    return PlanColumns(
        tp=layouts.tp,
        pp=column,
        cp=layouts.cp,
        attention_dp=ep * inside,
        ep=ep,
        moe_tp=inside,
        dp=column,
        ring_degree=column,
        guidance_degree=column,
        dcp=column,
    )


def _on_rank(
    whole: tuple[operators.Operator, ...], work: Work, layouts: Layouts
) -> Iterator[operators.Operator]:
    """Yield operators as one rank executes them."""
    plan = plan_of(work.network, layouts)
    for operator in shard_operators(
        whole, plan, work.network, balanced_tables=work.balanced_tables
    ):
        static = work.formats.gemm == "fp8_static" and operator.stream_kind == operators.QUANTIZE
        if operator.communicates or (
            # with a known scale, the kernel before a quantization already makes the cast
            static and operator.name.removesuffix("_quantize") in _FUSED_CASTS
        ):
            continue
        if isinstance(operator, operators.GroupedGemm):
            yield _experts(operator, layouts, work.distribution)
        elif work.network.tables and isinstance(operator, operators.Streaming):
            yield operators.with_fields(operator, table_rows=0.0)  # `tables` counts their weights
        elif operator.shard == "replicated":
            yield operator.split_rows(layouts.token_ranks)
        elif operator.name == "kv_b_projection":
            yield operator.split_rows(layouts.cp)
        else:
            yield operator


def _experts(
    operator: operators.GroupedGemm, layouts: Layouts, distribution: str
) -> operators.GroupedGemm:
    """Return the experts of one rank, over the rows that were sent to it.

    A rank of a serving engine sorts the tokens of its whole group; here each row has been sent to
    its expert, so that the product has one expert per row and only the rank's own experts.
    """
    sent_C = layouts.tokens / layouts.token_ranks * layouts.expert_tp * operator.top_k
    return operators.with_fields(
        operator,
        tokens=sent_C,
        experts=operator.experts / layouts.ep,
        top_k=np.ones_like(sent_C),
        ep=np.ones_like(sent_C),
        moe_tp=layouts.expert_tp,
        distribution=distribution,
    )


def passes_of(
    operator: operators.Operator,
    segment: int,
    level: int,
    *,
    frozen: bool = False,
    backward: operators.Backward | None = None,
) -> Iterator[Row]:
    """Yield the forward operator and its gradients, without those of frozen weights.

    Args:
        backward: Its gradients as the network has them; None for those of the operator.
    """
    forward = operator
    if isinstance(operator, operators.Streaming) and operator.stream == operators.QUANTIZE:
        copies = 1.0 if frozen else operators.COPIES
        forward = operators.with_fields(operator, write_bytes=copies * operator.write_bytes)
    yield Row(forward, segment, Part.FORWARD, level)
    backward = backward or operator.backward(frozen=frozen)
    for gradient in backward.inputs:
        yield Row(gradient, segment, Part.INPUT_GRADIENT)
    for weight in backward.weights:
        yield Row(weight, segment, Part.WEIGHT_GRADIENT)
