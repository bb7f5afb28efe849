"""Operators and cost of a prefill chunk and of a decode step, also with speculative decoding.

With it, a decode step computes 1 + `drafts` tokens of every sequence. The queries of a sequence
read its KV cache together, so the kernel sees them as more query heads, as kernels pack the heads
of a group. The drafter then runs one pass over the same tokens, and for each further draft one pass
over one token per sequence. It also runs over every prompt to fill its own KV cache.

Source: vllm-project/vllm, vllm/v1/spec_decode/eagle.py, propose(): one pass over all tokens of the
    step, then one pass of a token per sequence for each further draft;
    Dao-AILab/flash-attention, pack_gqa.
Limits: Neglects the host time of drafting passes and the drafting after a prompt ends. All
    scheduled drafts are computed; none is truncated at the end of an output.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.engines import Launches
from perfatlas.networks import ENCODER, FUSING, StepTokens
from perfatlas.operators import (
    Collective,
    FloatArray,
    GroupedGemm,
    KeyReader,
    Operator,
    Phase,
    with_fields,
)
from perfatlas.parallelism import GATHERING, shard_operators
from perfatlas.step.composition import step_costs
from perfatlas.step.cost import Step, StepCost
from perfatlas.step.fusion import apply_fusions, split_kernels
from perfatlas.step.rebalancing import rebalancing
from perfatlas.step.tokens import padded_batch
from perfatlas.step.two_batches import OUTER, batch_count, part_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, Operator
    from perfatlas.step.context import StepContext

FIRST: Final = "draft_"  # prefix of the pass over all tokens of a step
LATER: Final = "draft_again_"  # prefix of the other passes
# operators omitted from a pass over a prompt, whose first draft comes with the next decode step
HEAD: Final = ("final_norm", "lm_head", "sampling")


def run_locally(whole: Sequence[Operator], context: StepContext) -> tuple[Operator, ...]:
    """Return the operators of one rank with its collectives; fused ones have count 0."""
    loaded = tuple(
        with_fields(op, distribution=context.expert_distribution) if op.routed else op
        for op in whole
    )
    local = shard_operators(
        loaded,
        context.plan,
        context.network,
        expert_exchange=context.profile.expert_exchange,
        domain=context.placement.domain(),
        balanced_tables=context.tier == "bound",
    )
    return split_kernels(apply_fusions(local, context), context)


def verification_operator(operator: Operator, batch: FloatArray, queries: int) -> Operator:
    """Return an operator of a decode step that verifies several tokens per sequence.

    Args:
        batch: Sequences (C,).

    Limits: Every query sees all keys of the step, up to `queries` - 1 too many. With key selection,
        each query reads its own keys.
    """
    return operator.verifying(batch, queries) if isinstance(operator, KeyReader) else operator


def drafting_passes(
    context: StepContext, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    """Return the operators of one rank that draft after a decode step, with collectives.

    Args:
        batch: Sequences on one attention-DP rank (C,).
        kv_len: Keys per sequence, including the new tokens (C,).
    """
    sizes = context.profile.scheduler.graph_sizes
    tokens = 1 + context.drafts
    first = _pass(context, padded_batch(batch * tokens, sizes), batch, kv_len)
    operators = [_renamed(verification_operator(op, batch, tokens), FIRST, 1.0) for op in first]
    if context.drafts > 1:
        later = _pass(context, padded_batch(batch, sizes), batch, kv_len)
        again = context.drafts - 1.0
        operators += [
            _renamed(verification_operator(op, batch, 1), LATER, again)
            for op in later
            if not op.name.startswith(FUSING)  # hidden states of the model, in the first pass
        ]
    return tuple(operators)


def prompt_pass(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    """Return the operators of one rank that add a step's tokens to the drafter's KV cache."""
    whole = _local_draft(context, phase, tokens)
    return tuple(_renamed(op, FIRST, 1.0) for op in whole if not op.name.startswith(HEAD))


def _pass(
    context: StepContext, rows: FloatArray, batch: FloatArray, kv_len: FloatArray
) -> tuple[Operator, ...]:
    column = np.ones_like(batch)
    tokens = StepTokens(batch=rows, q_len=column, kv_len=kv_len, logits_rows=batch)
    return _local_draft(context, Phase.DECODE, tokens)


def _local_draft(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    divided = replace(tokens, head_ranks=context.plan.tp)
    whole = context.network.draft_operators(context.formats, phase, divided)
    return run_locally(whole, context)


def _renamed(operator: Operator, prefix: str, times: float) -> Operator:
    return with_fields(operator, name=f"{prefix}{operator.name}", count=operator.count * times)


def prefill_step(context: StepContext, tokens: StepTokens) -> StepCost:
    """Return the cost of one prefill chunk through all layers of the model.

    Args:
        context: Model, engine, systems and plan.
        tokens: The chunk on one attention-DP rank.
    """
    return step_costs((prefill_work(context, tokens),), context)[0]


def decode_step(context: StepContext, batch: FloatArray, kv_len: FloatArray) -> StepCost:
    """Return the cost of one decode step through all layers of the model.

    Args:
        context: Model, engine, systems and plan.
        batch: Sequences on one attention-DP rank (C,).
        kv_len: Keys per sequence, including the new token (C,).
    """
    return step_costs((decode_work(context, batch, kv_len),), context)[0]


def prefill_work(
    context: StepContext, tokens: StepTokens, busy_ranks: FloatArray | None = None
) -> Step:
    """Return one prefill chunk through all layers of the model.

    Decode tokens of other sequences (`tokens.decodes`) share its linear layers; their attention,
    scans and host time belong to their decode step.

    Args:
        context: Model, engine, systems and plan.
        tokens: The chunk on one attention-DP rank.
        busy_ranks: Attention-DP ranks that prefill at the same time (C,); None for all. Where the
            engine pads all ranks to the tokens of the busiest one, all do its work.
    """
    batches = batch_count(context, Phase.PREFILL, tokens.all)
    operators = _in_batches(context, Phase.PREFILL, tokens, batches)
    operators += rebalancing(operators, context)
    if context.drafts:
        operators += prompt_pass(context, Phase.PREFILL, tokens)
    if busy_ranks is not None:
        padded_C = tokens.all <= context.profile.scheduler.padded_tokens.mixed
        busy_ranks = np.where(padded_C, context.plan.attention_dp, busy_ranks)
        idle = 1.0 - busy_ranks / context.plan.attention_dp
        operators = _on_busy_ranks(operators, context, 1.0 - idle * tokens.new_tokens / tokens.all)
    host = context.profile.host
    launch_s = _launch_s(context, operators, batches)
    host_s = host.step_s + tokens.batch * host.per_sequence_s + launch_s
    return Step(operators=operators, tokens_C=tokens.all, host_s_C=host_s, batches_C=batches)


def _launch_s(
    context: StepContext, operators: Sequence[Operator], batches: FloatArray | None
) -> FloatArray:
    """Return the host time of the launches of a step without CUDA graphs (C,) [s]."""
    layers = float(context.network.num_layers)
    launched = layers if batches is None else layers * batches
    launched += sum(op.count for op in operators if op.name == f"{ENCODER}attention")
    return context.launch_s(launched, launched_operators(operators))


def launched_operators(operators: Sequence[Operator]) -> Launches:
    """Return what the host launches in a step without CUDA graphs."""
    experts = [op.count for op in operators if op.routed]
    count_C: FloatArray = np.sum([op.count for op in operators], axis=0)
    expert_layers_C: FloatArray = np.sum([np.zeros_like(count_C), *experts], axis=0)
    return Launches(operators_C=count_C, expert_layers_C=expert_layers_C)


def decode_work(context: StepContext, batch: FloatArray, kv_len: FloatArray) -> Step:
    """Return one decode step through all layers of the model.

    Linear layers run the batch of the captured graph; attention reads only existing KV caches. With
    speculative decoding, the step verifies the drafts and includes drafting the next ones. A
    network without decode runs its pass on the batch.

    Args:
        context: Model, engine, systems and plan.
        batch: Sequences on one attention-DP rank (C,).
        kv_len: Keys per sequence, including the new tokens (C,).
    """
    queries = 1 + context.drafts
    padded = padded_batch(batch * queries, context.profile.scheduler.graph_sizes)
    tokens = StepTokens(batch=padded, q_len=np.ones_like(batch), kv_len=kv_len)
    phase = context.network.phases[-1]
    batches = batch_count(context, phase, batch * queries)
    rows = batch if batches is None else batch / batches
    operators = tuple(
        verification_operator(op, rows, queries)
        for op in _in_batches(context, phase, tokens, batches)
    )
    operators += rebalancing(operators, context)
    if context.drafts:
        operators += drafting_passes(context, batch, kv_len)
    host_s = context.profile.host.step_s + batch * context.sequence_host_s()
    if context.network.item and context.network.decodes:  # a pass of a graph, without CUDA graphs
        host_s = host_s + _launch_s(context, operators, batches)
    return Step(operators=operators, tokens_C=batch * queries, host_s_C=host_s, batches_C=batches)


def _in_batches(
    context: StepContext, phase: Phase, tokens: StepTokens, batches: FloatArray | None
) -> tuple[Operator, ...]:
    """Return the operators of one rank, those of layers once per batch."""
    whole = rank_operators(context, phase, tokens)
    if batches is None:
        return whole
    parts = rank_operators(context, phase, part_of(tokens, batches))
    return tuple(
        all_ if all_.name.startswith(OUTER) else with_fields(part, count=part.count * batches)
        for all_, part in zip(whole, parts, strict=True)
    )


def works_on_all_tokens(operator: Operator, context: StepContext) -> NDArray[np.bool_]:
    """Return whether the work of one rank depends on the tokens of all attention-DP ranks (C,).

    Experts compute the tokens of all ranks, and so do collectives between them that gather tokens.
    In an all-to-all the rank with the most tokens sends and receives its own, which takes as long
    whether the other ranks have as many or none; so it does where two ranks gather tokens.

    Args:
        context: Model, engine, systems and plan.

    Source: vLLM distributed/device_communicators/all2all.py: `all_gatherv` and `reduce_scatterv`
        with the number of tokens of each rank; DeepEP README: each rank sends its own tokens.
    Limits: A link of a ring carries the tokens of all ranks but one, which is R/(R - 1) times the
        mean of R ranks where only one has tokens.
    """
    ranks_C = context.plan.attention_dp
    moves = operator.name.endswith if operator.communicates else "".endswith
    if operator.routed or moves(("experts_gather", "experts_reduce_scatter")):
        return np.ones_like(ranks_C, np.bool_)
    gathers = moves(("_dispatch", "_combine")) and context.profile.expert_exchange in GATHERING
    # of two ranks, each receives the tokens of the other: both wait for those of the busiest
    gathers_C: NDArray[np.bool_] = (ranks_C != 2) & gathers
    return gathers_C


def _on_busy_ranks(
    operators: tuple[Operator, ...], context: StepContext, share_C: FloatArray
) -> tuple[Operator, ...]:
    """Return the operators, those on the tokens of all ranks scaled to the busy ranks."""

    def scaled(operator: Operator) -> Operator:
        own_C = np.where(works_on_all_tokens(operator, context), share_C, 1.0)
        if isinstance(operator, GroupedGemm):
            return with_fields(operator, tokens=operator.tokens * own_C)
        if isinstance(operator, Collective):
            return with_fields(operator, bytes=operator.bytes * own_C)
        return operator

    return tuple(scaled(operator) for operator in operators)


def rank_operators(context: StepContext, phase: Phase, tokens: StepTokens) -> tuple[Operator, ...]:
    """Return the operators of one rank in a step with its collectives; fused ones have count 0."""
    per_token_C = context.images_per_token_C
    images_C = None if per_token_C is None else tokens.new_tokens * per_token_C
    divided = replace(tokens, head_ranks=context.plan.tp, images=images_C)
    whole = context.network.step_operators(context.formats, phase, divided)
    return run_locally(whole, context)
