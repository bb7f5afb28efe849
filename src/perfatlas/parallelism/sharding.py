"""Sharding: the operators of a whole model rewritten for one rank, with collectives inserted.

Shape legend: C candidates. Sizes are divided exactly, so that the work summed over ranks equals the
unsharded work; candidates whose sizes do not divide are refused by `plan_problems`. Only the
vocabulary is rounded up, as engines pad it.

The result is the latency path of one micro-batch: the operators of all pipeline stages in sequence,
at full depth, with pp - 1 transfers between stages. For the pipelined bottleneck scale the layers
with `stage_share`.

Context parallelism applies to prefill. Every rank holds two chunks of the sequence, one early and
one late, to balance causal work; keys and values are all-gathered before each attention. In decode
all cp ranks repeat the same work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import (
    Attention,
    Collective,
    Convolution,
    Gemm,
    GroupedGemm,
    KeyScores,
    KeySelection,
    LatentAttention,
    Operator,
    Phase,
    Scan,
    Streaming,
    visible_pairs,
    with_fields,
)
from perfatlas.parallelism.exchange import ExpertExchange, expert_collectives, received_tokens
from perfatlas.parallelism.groups import ACTIVATION_BYTES, Group, collective
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

# Names of `models`: operators that cp does not divide, and those reduced with the experts.
_UNDIVIDED: Final = ("lm_head", "sampling", "kv_b_projection")
# What runs between the experts and the reduction of their sums: shared experts, whose sums are
# reduced with them, and the projection out of a latent width.
_BESIDE_EXPERTS: Final = ("shared_expert", "latent_up_projection")
# Shards whose tensors are divided over the tensor-parallel group.
_DIVIDED: Final = frozenset(
    {"column", "row", "row_partial", "heads", "vocab", "width", "width_sums"}
)
# A norm over divided heads reduces the squared sums of queries and keys in fp32.
# Source: vllm/model_executor/models/minimax_m2.py and mamba/linear_attn.py, MiniMaxText01RMSNormTP.
_NORM_SUMS: Final = 2.0
_SUM_BYTES: Final = 4.0


def shard_operators(
    operators: tuple[Operator, ...],
    plan: PlanColumns,
    architecture: Network,
    *,
    expert_exchange: ExpertExchange = "all_to_all",
    domain: FloatArray | None = None,
) -> tuple[Operator, ...]:
    """Return the operators of one rank, with collectives inserted in execution order.

    Args:
        operators: The unsharded step of one attention-DP rank, from `models.step_operators` with
            `head_ranks = plan.tp`; `count` covers the whole depth.
        plan: The plans (C,).
        architecture: The model.
        expert_exchange: Exchange of tokens between attention-DP ranks: "all_to_all" sends each
            token to the ranks with its experts, "all_gather_reduce_scatter" sends all tokens to
            all ranks, "deepep" sends each prompt token once to every scale-up domain.
        domain: GPUs of a scale-up domain (C,); None for one domain.

    Returns:
        Divided operators in the given order. A collective has count 0 if its group is a single
        rank, and is omitted if that holds for all candidates.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053, section 3) for column and row division;
        context parallelism as in Llama 3 (arXiv 2407.21783, section 3.3.2).
    """
    merged = any(operator.shard == "row_partial" for operator in operators)
    one = np.ones_like(plan.cp)
    result: list[Operator] = []
    waiting: tuple[Collective, ...] = ()  # the experts' reduction
    hidden = float(architecture.hidden_size)
    for operator in operators:
        if not operator.name.startswith(_BESIDE_EXPERTS):
            result += waiting
            waiting = ()
        local = _divide(operator, plan, plan.cp if _spans_sequence(operator) else one)
        if isinstance(local, GroupedGemm):
            before, waiting = expert_collectives(
                local, plan, expert_exchange, hidden=hidden, merged=merged, domain=domain
            )
            result += [*before, received_tokens(local, plan, expert_exchange)]
        else:
            before, after = _communication(local, plan)
            result += [*before, local, *after]
    result += waiting
    result += _stage_transfer(operators, plan, architecture)
    return tuple(
        operator
        for operator in result
        if not isinstance(operator, Collective) or bool(np.any(operator.count > 0))
    )


def stage_share(architecture: Network, plan: PlanColumns) -> FloatArray:
    """Return the fraction of layers in the fullest pipeline stage, ceil(L/pp)/L (C,).

    Args:
        architecture: The model of L layers.
        plan: The plans (C,).

    Limits: Layers of different kinds are assumed evenly distributed over the stages.
    """
    layers = float(architecture.num_layers)
    share: FloatArray = np.ceil(layers / plan.pp) / layers
    return share


def stage_layers(architecture: Network, stages: int) -> tuple[int, ...]:
    """Return the layers of each pipeline stage.

    The stages before the last one get those that are left over, from the back.

    Args:
        architecture: The model.
        stages: Number of stages, at most the number of layers.

    Source: vllm-project/vllm, vllm/distributed/utils.py, get_pp_indices().

    Limits: Layers of different kinds take equal time; embedding and head are those of all stages.
    """
    each, left = divmod(architecture.num_layers, stages)
    first = stages - 1 - left
    return tuple(each + (first <= stage < stages - 1) for stage in range(stages))


def _spans_sequence(operator: Operator) -> bool:
    """Return whether its rows are new prompt tokens, which cp divides.

    The head has one row per sequence, on the rank of the last token. The expansion of latent keys
    and values is repeated for every key on every rank: gathering the expanded heads costs more.
    """
    return operator.phase != Phase.DECODE and not operator.name.startswith(_UNDIVIDED)


def _divide(operator: Operator, plan: PlanColumns, parts: FloatArray) -> Operator:
    """Return the part of one rank: tokens divided by `parts`, width by tp."""
    tp = plan.tp if operator.shard in _DIVIDED else np.ones_like(plan.tp)
    match operator:
        case Streaming():  # the most frequent type first
            return _divide_streaming(operator, tp, parts)
        case Gemm():
            return with_fields(divide_gemm(operator, plan), m=operator.m / parts)
        case GroupedGemm():
            # The operator counts the tokens of the whole expert group.
            tokens = operator.tokens * plan.attention_dp / parts
            return with_fields(operator, tokens=tokens, ep=plan.ep, moe_tp=plan.moe_tp)
        case Attention() | LatentAttention() | KeyScores() | KeySelection():
            return _divide_attention(operator, tp, parts)
        case Scan() | Convolution():
            return _divide_recurrent(operator, tp)
        case _:
            return operator


def _divide_recurrent(operator: Scan | Convolution, tp: FloatArray) -> Operator:
    """Return the heads or channels of one rank; a recurrence is not divided along the sequence."""
    if isinstance(operator, Convolution):
        return with_fields(operator, channels=operator.channels / tp)
    return with_fields(
        operator,
        flop_per_token=operator.flop_per_token / tp,
        io_bytes_per_token=operator.io_bytes_per_token / tp,
        state_bytes=operator.state_bytes / tp,
        num_heads=operator.num_heads / tp,
    )


def _divide_attention(
    operator: Attention | LatentAttention | KeyScores | KeySelection,
    tp: FloatArray,
    parts: FloatArray,
) -> Operator:
    """Return the heads of one rank over its balanced part of the sequence."""
    match operator:
        case Attention():
            limit = operator.window
        case LatentAttention():
            limit = operator.selected
        case KeyScores() | KeySelection():  # every key is scored
            limit = np.zeros_like(operator.q_len)
    q_len, kv_len = _balanced(operator.q_len, operator.kv_len, limit, parts)
    divided = with_fields(operator, q_len=q_len, kv_len=kv_len)
    if isinstance(divided, KeySelection):
        return divided
    if isinstance(divided, Attention):
        divided = with_fields(divided, num_kv_heads=np.maximum(divided.num_kv_heads / tp, 1.0))
    return with_fields(divided, num_heads=divided.num_heads / tp)


def divide_gemm(operator: Gemm, plan: PlanColumns) -> Gemm:
    """Return a linear layer with the weights of one rank; its rows are not divided.

    Args:
        operator: The unsharded layer.
        plan: The plans (C,).
    """
    match operator.shard:
        case "row" | "row_partial":
            return with_fields(operator, k=operator.k / plan.tp)
        case "vocab":
            return with_fields(operator, n=np.ceil(operator.n / plan.tp))
        case "column" | "heads" | "width" | "width_sums":
            return with_fields(operator, n=operator.n / plan.tp)
        case _:
            return operator


def _divide_streaming(operator: Streaming, tp: FloatArray, parts: FloatArray) -> Streaming:
    # The vocabulary-parallel embedding writes whole rows, zero for tokens of other ranks.
    write_part = parts if operator.shard == "vocab" else parts * tp
    return with_fields(
        operator,
        tokens=operator.tokens / parts,
        read_bytes=operator.read_bytes / (parts * tp),
        write_bytes=operator.write_bytes / write_part,
        cold_read_bytes=operator.cold_read_bytes / (parts * tp),
    )


def _balanced(
    q_len: FloatArray, kv_len: FloatArray, limit: FloatArray, parts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return (queries, keys) of one of `parts` ranks with balanced causal work, each (C,).

    A rank has q = Q/parts queries. The keys are set so that its visible pairs are exactly those of
    the sequence divided by `parts`. Without a limit that is K - (Q - q)/2: with two ranks and no
    prefix, half the queries see three quarters of the keys.
    """
    pairs = visible_pairs(q_len, kv_len, limit) / parts
    queries = q_len / parts
    cap = np.where(limit > 0, limit, np.inf)
    growing = pairs / queries - (queries - 1.0) / 2.0  # keys of the first query, none capped
    # With a limit, pairs = q cap - m(m + 1)/2 if the first m queries are below the cap.
    finite = np.where(limit > 0, limit, 0.0)
    deficit = np.maximum(queries * finite - pairs, 0.0)
    below = (np.sqrt(1.0 + 8.0 * deficit) - 1.0) / 2.0
    capped = (limit > 0) & (below <= queries)
    first = np.where(capped, np.minimum(finite - below, cap), growing)
    whole = parts == 1.0
    keys = np.where(whole, kv_len, first + queries - 1.0)
    return np.where(whole, q_len, queries), keys


def _communication(
    local: Operator, plan: PlanColumns
) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """Return the collectives before and after a divided operator."""
    if local.shard == "row" and isinstance(local, Gemm):
        size = local.m * local.n * local.output_bytes_per_element
        return (), (collective(local, "all_reduce", size, _tensor_group(plan)),)
    if local.shard == "vocab" and isinstance(local, Gemm):
        size = local.m * local.n * plan.tp * local.output_bytes_per_element
        return (), (collective(local, "all_gather", size, _tensor_group(plan)),)
    if local.shard == "width_sums" and isinstance(local, Streaming):
        size = local.tokens * _NORM_SUMS * _SUM_BYTES
        return (collective(local, "all_reduce", size, _tensor_group(plan)),), ()
    if local.shard == "vocab" and isinstance(local, Streaming):
        return (), (collective(local, "all_reduce", local.write_bytes, _tensor_group(plan)),)
    if local.phase != Phase.DECODE and isinstance(local, Attention | LatentAttention):
        sequence = Group(ranks=plan.cp, stride=plan.tp * plan.attention_dp)
        size = local.batch * local.q_len * plan.cp * _cache_row(local) * ACTIVATION_BYTES
        return (collective(local, "all_gather", size, sequence),), ()
    return (), ()


def _tensor_group(plan: PlanColumns) -> Group:
    """Return the tensor-parallel group."""
    return Group(ranks=plan.tp, stride=np.ones_like(plan.tp))


def _cache_row(local: Attention | LatentAttention) -> FloatArray:
    """Return elements of keys and values per token on one rank (C,)."""
    if isinstance(local, Attention):
        return local.num_kv_heads * (local.head_dim + local.value_head_dim)
    return local.kv_lora_rank + local.rope_dim


def _stage_transfer(
    operators: tuple[Operator, ...], plan: PlanColumns, architecture: Network
) -> list[Operator]:
    """Return the sends of the hidden state between pipeline stages, if any."""
    if not operators or not bool(np.any(plan.pp > 1)):
        return []
    phase = operators[0].phase
    cp = plan.cp if phase != Phase.DECODE else np.ones_like(plan.cp)
    tokens = _tokens(operators[0]) / cp
    transfer = Collective(
        name="pipeline_send_recv",
        phase=phase,
        count=plan.pp - 1.0,
        op="send_recv",
        bytes=tokens * architecture.hidden_size * ACTIVATION_BYTES,
        ranks=np.where(plan.pp > 1, 2.0, 1.0),
        stride=plan.tp * plan.attention_dp * plan.cp,
    )
    return [transfer]


def _tokens(first: Operator) -> FloatArray:
    """Return the tokens of the step: the rows of its first operator (C,)."""
    if isinstance(first, Streaming):
        return first.tokens
    if isinstance(first, Gemm):
        return first.m
    raise UnsupportedError(
        f"a step that begins with {first.name!r} ({first.kind}) cannot be divided into stages;"
        " start it with an embedding, a norm or a linear layer"
    )
