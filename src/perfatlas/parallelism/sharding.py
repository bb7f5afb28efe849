"""Sharding: the operators of a whole model rewritten for one rank, with collectives inserted.

Shape legend: C candidates. Sizes are divided exactly, so that the work summed over ranks equals the
unsharded work; candidates whose sizes do not divide are refused by `plan_problems`. Only the
vocabulary is rounded up, as engines pad it.

The result is the latency path of one micro-batch: the operators of all pipeline stages in sequence,
at full depth, with pp - 1 transfers between stages. For the pipelined bottleneck scale the layers
with `stage_share`.

Context parallelism applies to prefill. Every rank holds two chunks of the sequence, one early and
one late, to balance causal work; keys and values are all-gathered before each attention. In decode
all cp ranks repeat the same work. Decode context parallelism stripes the cached keys over
tensor-parallel ranks. Denoisers divide their passes with and without a prompt among
guidance_degree ranks, keys and values rotate among ring_degree ranks (ring attention), the others
exchange heads (Ulysses), and what runs before and after them is repeated on all cp ranks.
Attention-DP ranks divide embedding tables (`tables`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import (
    ACTIVATION_BYTES,
    Collective,
    GroupedGemm,
    Operator,
    Phase,
    Ranks,
)
from perfatlas.parallelism.exchange import ExpertExchange, expert_collectives, received_tokens
from perfatlas.parallelism.tables import shard_tables
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.networks import Network
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import PlanColumns

# What runs between the experts and the reduction of their sums: shared experts, whose sums are
# reduced with them, and the projection out of a latent width.
_BESIDE_EXPERTS: Final = ("shared_expert", "latent_up_projection")


def shard_operators(
    operators: tuple[Operator, ...],
    plan: PlanColumns,
    network: Network,
    *,
    expert_exchange: ExpertExchange = "all_to_all",
    domain: FloatArray | None = None,
    balanced_tables: bool = False,
) -> tuple[Operator, ...]:
    """Return the operators of one rank, with collectives inserted in execution order.

    Args:
        operators: The unsharded step of one attention-DP rank, from `models.step_operators` with
            `head_ranks = plan.tp`; `count` covers the whole depth.
        plan: The plans (C,).
        expert_exchange: Exchange of tokens between attention-DP ranks: "all_to_all" sends each
            token to the ranks with its experts, "all_gather_reduce_scatter" sends all tokens to
            all ranks, "deepep" sends each prompt token once to every scale-up domain.
        domain: GPUs of a scale-up domain (C,); None for one domain.
        balanced_tables: Whether lookups and their exchanges are the least of all placements.

    Returns:
        Divided operators in the given order. A collective has count 0 if its group is a single
        rank, and is omitted if that holds for all candidates.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053, section 3) for column and row division;
        context parallelism as in Llama 3 (arXiv 2407.21783, section 3.3.2), of denoisers as in
        xdit-project/xDiT, xfuser/core/distributed/parallel_state.py ("tp-sp-pp-cfg-dp").
    """
    merged = any(operator.shard == "row_partial" for operator in operators)
    whole = dividing_ranks(plan)
    sequence = whole._replace(cp=plan.cp) if bool(np.any(plan.cp > 1)) else whole
    if bool(np.any(plan.ring_degree > 1)):
        sequence = sequence._replace(ring=plan.ring_degree)
    passes = whole
    if bool(np.any(plan.guidance_degree > 1)):
        sequence = sequence._replace(guidance=plan.guidance_degree)
        passes = whole._replace(cp=plan.guidance_degree, guidance=plan.guidance_degree)
    result: list[Operator] = []
    waiting: tuple[Collective, ...] = ()  # the experts' reduction
    hidden = float(network.hidden_size)
    divided = operators
    if network.tables:
        divided = shard_tables(operators, plan, balanced=balanced_tables)
    for operator in divided:
        if not operator.name.startswith(_BESIDE_EXPERTS):
            result += waiting
            waiting = ()
        undivided = passes if operator.name in network.denoising else whole
        ranks = sequence if network.divides_tokens(operator) else undivided
        local = operator.divided(ranks)
        if isinstance(local, GroupedGemm):
            before, waiting = expert_collectives(
                local, plan, expert_exchange, hidden=hidden, merged=merged, domain=domain
            )
            result += [*before, received_tokens(local, plan, expert_exchange)]
        else:
            own_before, own_after = local.collectives(ranks)
            result += [*own_before, local, *own_after]
    result += waiting
    result += _stage_transfer(operators, plan, network)
    return tuple(
        operator
        for operator in result
        if not operator.communicates or bool(np.any(operator.count > 0))
    )


def dividing_ranks(plan: PlanColumns) -> Ranks:
    """Return the ranks that divide operators whose tokens are not divided.

    Args:
        plan: The plans (C,).
    """
    striped = plan.dcp if bool(np.any(plan.dcp > 1)) else None
    return Ranks(plan.tp, plan.attention_dp, plan.ep, plan.moe_tp, dcp=striped)


def stage_share(network: Network, plan: PlanColumns) -> FloatArray:
    """Return the fraction of layers in the fullest pipeline stage, ceil(L/pp)/L (C,).

    Args:
        plan: The plans (C,).

    Limits: Layers of different kinds are assumed evenly distributed over the stages.
    """
    layers = float(network.num_layers)
    share: FloatArray = np.ceil(layers / plan.pp) / layers
    return share


def stage_layers(network: Network, stages: int) -> tuple[int, ...]:
    """Return the layers of each pipeline stage.

    The stages before the last one get those that are left over, from the back.

    Args:
        stages: Number of stages, at most the number of layers.

    Source: vllm-project/vllm, vllm/distributed/utils.py, get_pp_indices().

    Limits: Layers of different kinds take equal time; embedding and head are those of all stages.
    """
    layers, rest = divmod(network.num_layers, stages)
    first = stages - 1 - rest
    return tuple(layers + (first <= stage < stages - 1) for stage in range(stages))


def _stage_transfer(
    operators: tuple[Operator, ...], plan: PlanColumns, network: Network
) -> list[Operator]:
    """Return the sends of the hidden state between pipeline stages, if any."""
    if not operators or not bool(np.any(plan.pp > 1)):
        return []
    first = operators[0]
    if (tokens := first.rows()) is None:
        raise UnsupportedError(
            f"a step that begins with {first.name!r} ({first.kind}) cannot be divided into stages;"
            " start it with an embedding, a norm or a linear layer"
        )
    cp = plan.cp if first.phase != Phase.DECODE else np.ones_like(plan.cp)
    transfer = Collective(
        name="pipeline_send_recv",
        phase=first.phase,
        count=plan.pp - 1.0,
        op="send_recv",
        bytes=tokens / cp * network.hidden_size * ACTIVATION_BYTES,
        ranks=np.where(plan.pp > 1, 2.0, 1.0),
        stride=plan.tp * plan.attention_dp * plan.cp,
    )
    return [transfer]
