"""Exchange of tokens between ranks for expert parallelism.

Shape legend: C candidates. T tokens of one attention-DP rank enter; every rank of its tp group
holds all of them. The tp x attention_dp ranks hold the experts as ep groups of moe_tp ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from perfatlas.operators import (
    ACTIVATION_BYTES,
    Group,
    MeasuredLoads,
    Phase,
    busiest_rank,
    load_skew,
    with_fields,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import Collective, FloatArray, GroupedGemm
    from perfatlas.parallelism.plan import PlanColumns

ExpertExchange = Literal[
    "all_to_all",
    "all_gather_reduce_scatter",
    "quantized_all_gather",
    "deepep",
    "deepep_normal",
    "deepep_low_latency",
]
GATHERING: Final = ("all_gather_reduce_scatter", "quantized_all_gather")


def expert_collectives(
    local: GroupedGemm,
    plan: PlanColumns,
    exchange: ExpertExchange,
    *,
    hidden: float,
    merged: bool,
    domain: FloatArray | None = None,
) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """Return the collectives before and after the experts of one rank.

    attention_dp = 1: every rank has all tokens and computes its experts' part; one all-reduce
    over the tp group sums the parts (and the shared expert's, tag row_partial).

    attention_dp > 1, "all_gather_reduce_scatter": all tokens are gathered over the attention-DP
    ranks in 16 bits, partial sums are reduce-scattered back, then all-reduced over tp.
    "quantized_all_gather" is the same with tokens gathered in the experts' input format.

    attention_dp > 1, "all_to_all": each tp rank sends its T/tp tokens in the experts' input
    format, once to every ep group that holds one of the token's experts (dispatch over ep
    ranks); moe_tp ranks of a group all-gather what they received, and reduce-scatter their
    partial sums; combine returns the rows in 16 bits; the tp group then assembles its tokens
    by all-gather, or by all-reduce when a shared expert's partial sums ride along.

    attention_dp > 1, "deepep": as "all_to_all" in decode, with the low-latency kernels. In prefill
    the normal kernels send one copy per scale-up domain that holds one of the token's experts.
    "deepep_normal" and "deepep_low_latency" run the same kernels in both phases.

    Args:
        local: The experts on one rank, with `tokens` of the whole expert group.
        plan: The plans (C,).
        exchange: Exchange for attention_dp > 1.
        domain: GPUs of a scale-up domain (C,); read by DeepEP, None for one domain.

    Source: vLLM documentation, "Expert Parallel Deployment" (all2all backends
        allgather_reducescatter and deepep); DeepSeek-V3 report (arXiv 2412.19437, section 3.2);
        DeepEP README, normal and low-latency kernels; NVIDIA/TensorRT-LLM
        tensorrt_llm/_torch/modules/fused_moe/fused_moe_cutlass.py (tokens are quantized before
        they are gathered).
    Limits: Routing is not limited to node groups. Where it is skewed, all ranks wait for the one
        that most tokens reach: dispatch and combine move its rows over its link, so that bytes
        of the other ranks are fewer. Scales of a quantized dispatch and the token-to-expert
        tables are not counted; all attention-DP ranks have equal tokens.
        Forwarding inside a domain runs beside the transfers between domains, which are slower.
    """
    tokens = local.tokens / plan.attention_dp
    full_bytes = tokens * hidden * ACTIVATION_BYTES
    tensor = Group(ranks=plan.tp, stride=np.ones_like(plan.tp))
    total = local.collective("all_reduce", full_bytes, tensor)
    if exchange in GATHERING:
        dispatch, combine = _gathering(
            local, plan, tokens, quantized=exchange == "quantized_all_gather"
        )
        return (dispatch,), (combine, total)
    per_domain = exchange == "deepep_normal" or (
        exchange == "deepep" and local.phase != Phase.DECODE
    )
    before, after = _all_to_all(local, plan, domain if per_domain else None)
    if merged:
        return before, (*after, total)
    alone = plan.attention_dp == 1
    assembled = _only(local.collective("all_gather", full_bytes, tensor), ~alone)
    return before, (*after, assembled, _only(total, alone))


def _gathering(
    local: GroupedGemm, plan: PlanColumns, tokens: FloatArray, *, quantized: bool
) -> tuple[Collective, Collective]:
    """Return the all-gather of tokens over attention-DP ranks, and the reduce-scatter of sums."""
    across = Group(ranks=plan.attention_dp, stride=plan.tp)
    elements = tokens * local.hidden * plan.attention_dp
    gathered = elements * (local.input_bytes_per_element if quantized else ACTIVATION_BYTES)
    dispatch = local.collective("all_gather", gathered, across, label="dispatch")
    scattered = elements * ACTIVATION_BYTES
    return dispatch, local.collective("reduce_scatter", scattered, across, label="combine")


def received_tokens(local: GroupedGemm, plan: PlanColumns, exchange: ExpertExchange) -> GroupedGemm:
    """Return the experts of one rank over the tokens that it holds when they run.

    After an all-to-all these are the tokens with one of its experts, otherwise those of all ranks.
    FLOP and bytes are the same; routing and permutation run over fewer tokens.

    Args:
        local: The experts on one rank, with `tokens` of the whole expert group.
        plan: The plans (C,).
        exchange: Exchange for attention_dp > 1.

    Source: DeepEP README: `dispatch` returns the received tokens, which alone enter the experts.
    Limits: An engine whose kernels run over padded receive buffers takes longer.
    """
    sharing = plan.attention_dp > 1
    if exchange in GATHERING or not bool(np.any(sharing)):
        return local
    reached = np.where(sharing, expert_groups_reached(local), 0.0)
    return with_fields(local, ranks_per_token=reached)


def _all_to_all(
    local: GroupedGemm, plan: PlanColumns, domain: FloatArray | None
) -> tuple[tuple[Collective, ...], tuple[Collective, ...]]:
    """Return (dispatch, gather) and (reduction, combine), with count 0 if attention_dp is 1."""
    sharing = plan.attention_dp > 1
    own_rows = local.tokens / (plan.attention_dp * plan.tp)
    received_rows = own_rows * expert_groups_reached(local) * plan.moe_tp
    copies, peers = _copies(local, plan, domain)
    most_rows = own_rows * copies * _busiest_share(local, copies, peers.ranks)
    received_rows = received_rows * _busiest_share(local, expert_groups_reached(local), plan.ep)
    inside = Group(ranks=plan.moe_tp, stride=np.ones_like(plan.tp))
    row_in = local.hidden * local.input_bytes_per_element
    row_out = local.hidden * ACTIVATION_BYTES
    dispatch = local.collective("dispatch", most_rows * row_in, peers)
    gather = local.collective("all_gather", received_rows * row_in, inside, label="gather")
    reduction = local.collective(
        "reduce_scatter", received_rows * row_out, inside, label="reduce_scatter"
    )
    combine = local.collective("combine", most_rows * row_out, peers)
    return (
        (_only(dispatch, sharing), _only(gather, sharing)),
        (_only(reduction, sharing), _only(combine, sharing)),
    )


def _copies(
    local: GroupedGemm, plan: PlanColumns, domain: FloatArray | None
) -> tuple[FloatArray, Group]:
    """Return the copies of a token (C,), and the group that exchanges them.

    One copy per ep group, or with `domain` one per scale-up domain of groups that span several.
    """
    if domain is None:
        return expert_groups_reached(local), Group(ranks=plan.ep, stride=plan.moe_tp)
    span = plan.ep * plan.moe_tp
    several = (span > domain) & (span % domain == 0.0)
    units = np.where(several, span / domain, plan.ep)
    copies = expert_groups_reached(with_fields(local, ep=units))
    return copies, Group(ranks=units, stride=np.where(several, domain, plan.moe_tp))


def _busiest_share(local: GroupedGemm, copies: FloatArray, groups: FloatArray) -> FloatArray:
    """Return the tokens that reach the busiest of several groups over those of a mean one (C,).

    A token reaches a mean group with the probability p = copies / groups. One whose experts are
    chosen f times as often is missed f times, of as many independent draws: 1 - (1 - p)^f. Measured
    exchanges have random routing, so that f is over that of uniform routing; at least 1.

    Args:
        local: The experts on one rank, with `tokens` of the whole expert group.
        copies: Mean number of groups that a token reaches (C,).
        groups: Groups that hold the experts (C,).

    Source: derived; loads of skewed routing as of the experts' kernels (`busiest_rank`).
    """
    measured = isinstance(local.distribution, MeasuredLoads)
    if load_skew(local.distribution) <= 0.0 and not measured:
        return np.ones_like(copies)
    skewed_C, random_C = (
        busiest_rank(name, local.tokens, local.experts, local.top_k, groups)
        for name in (local.distribution, "uniform")
    )
    reached_C = np.minimum(copies / groups, 1.0)
    most_C = 1.0 - (1.0 - reached_C) ** np.maximum(skewed_C / random_C, 1.0)
    share_C: FloatArray = most_C / reached_C
    return share_C


def expert_groups_reached(experts: GroupedGemm) -> FloatArray:
    """Return the mean number of ep groups that hold one of a token's experts (C,).

    A group of E/ep experts is missed by k distinct draws out of E with probability
    prod over j < k of (E - E/ep - j)/(E - j); the sender's own group counts as reached.

    Args:
        experts: Sizes of the expert network, with `ep` set.

    Limits: Uniform routing. Kernels that send one copy per expert instead of one per group
        (low-latency decode kernels) move top_k rows per token.

    Example: 8 experts on 4 groups, 2 per token: 4 (1 - 6/8 x 5/7) = 1.857 groups.
    """
    elsewhere = experts.experts - experts.experts / experts.ep
    missed = np.ones_like(elsewhere)
    for draw in range(int(np.max(experts.top_k))):
        remaining = np.maximum(experts.experts - draw, 1.0)
        step = np.clip((elsewhere - draw) / remaining, 0.0, 1.0)
        missed = missed * np.where(draw < experts.top_k, step, 1.0)
    groups: FloatArray = experts.ep * (1.0 - missed)
    return groups


def _only(communication: Collective, where: NDArray[np.bool_]) -> Collective:
    """Return the collective with count 0 outside `where`."""
    return with_fields(communication, count=np.where(where, communication.count, 0.0))
