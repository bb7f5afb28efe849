from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import parallelism
from perfatlas.machines.gpu.shapes import shape_columns
from perfatlas.networks import DenseFfn, GqaAttention, MoeFfn, Network, StepTokens, resolve_model
from perfatlas.operators import (
    Attention,
    Collective,
    Gemm,
    GroupedGemm,
    KeyScores,
    KeySelection,
    LatentAttention,
    Operator,
    Phase,
    Scan,
    with_fields,
)
from perfatlas.quantities import UnsupportedError
from tests.parallelism.examples import (
    BF16,
    DEEPSEEK_V3,
    LLAMA_70B,
    SMALL_DENSE,
    SMALL_MOE,
    column,
    model_of,
    plan_of,
)


def step(
    model: Network,
    plan: parallelism.PlanColumns,
    phase: Phase = Phase.PREFILL,
    *,
    batch: float = 2,
    q_len: float = 128,
    kv_len: float = 128,
) -> tuple[Operator, ...]:
    tokens = StepTokens(
        batch=column(batch), q_len=column(q_len), kv_len=column(kv_len), head_ranks=plan.tp
    )
    return model.step_operators(BF16, phase, tokens)


def named(operators: tuple[Operator, ...], name: str) -> Operator:
    return next(operator for operator in operators if operator.name == name)


def collectives(operators: tuple[Operator, ...]) -> dict[str, Collective]:
    return {op.name: op for op in operators if isinstance(op, Collective)}


def flop(operators: tuple[Operator, ...]) -> float:
    return sum(float((op.work().flop * op.count)[0]) for op in operators)


def test_one_rank_runs_the_unsharded_step() -> None:
    plan = plan_of()
    whole = step(SMALL_DENSE, plan)
    sharded = parallelism.shard_operators(whole, plan, SMALL_DENSE)
    assert [op.name for op in sharded] == [op.name for op in whole]
    for one, other in zip(sharded, whole, strict=True):
        for mine, theirs in zip(one.work(), other.work(), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_llama_70b_on_eight_ranks_by_hand() -> None:
    plan = plan_of(tp=8)
    sharded = parallelism.shard_operators(
        step(LLAMA_70B, plan, Phase.DECODE, batch=64, q_len=1, kv_len=2048), plan, LLAMA_70B
    )
    qkv, gate_up = named(sharded, "qkv_projection"), named(sharded, "gate_up_projection")
    down, attention = named(sharded, "down_projection"), named(sharded, "attention")
    assert isinstance(qkv, Gemm)
    assert isinstance(gate_up, Gemm)
    assert isinstance(down, Gemm)
    assert isinstance(attention, Attention)
    assert qkv.n.tolist() == [1280.0]  # (64 + 2 x 8) x 128 / 8
    assert gate_up.n.tolist() == [7168.0]  # 2 x 28672 / 8
    assert (down.n.tolist(), down.k.tolist()) == ([8192.0], [3584.0])
    assert (attention.num_heads.tolist(), attention.num_kv_heads.tolist()) == ([8.0], [1.0])
    found = collectives(sharded)
    assert set(found) == {
        "embedding_all_reduce",
        "output_projection_all_reduce",
        "down_projection_all_reduce",
        "lm_head_all_gather",
    }
    reduced = found["down_projection_all_reduce"]
    assert reduced.bytes.tolist() == [64 * 8192 * 2]
    assert (reduced.count.tolist(), reduced.ranks.tolist()) == ([80.0], [8.0])
    assert reduced.stride.tolist() == [1.0]
    assert found["lm_head_all_gather"].bytes.tolist() == [64 * 128256 * 2]


def test_kv_heads_are_copied_beyond_their_number() -> None:
    plan = plan_of(tp=16)
    sharded = parallelism.shard_operators(step(LLAMA_70B, plan), plan, LLAMA_70B)
    qkv, attention = named(sharded, "qkv_projection"), named(sharded, "attention")
    assert isinstance(qkv, Gemm)
    assert isinstance(attention, Attention)
    assert attention.num_kv_heads.tolist() == [1.0]
    assert qkv.n.tolist() == [(4 + 2 * 1) * 128]  # 64 / 16 query heads, one copied kv head


def test_vocabulary_is_padded_upwards() -> None:
    plan = plan_of(tp=3)
    model = model_of(
        GqaAttention(num_heads=6, num_kv_heads=3, head_dim=64, value_head_dim=64),
        DenseFfn(intermediate_size=192),
    )
    head = named(parallelism.shard_operators(step(model, plan), plan, model), "lm_head")
    assert isinstance(head, Gemm)
    assert head.n.tolist() == [342.0]  # ceil(1024 / 3)


@given(tp=st.sampled_from([1, 2, 4, 8, 16]), cp=st.integers(1, 5), batch=st.integers(1, 9))
def test_dense_flop_of_all_ranks_is_the_unsharded_flop(tp: int, cp: int, batch: int) -> None:
    model = model_of(
        GqaAttention(num_heads=16, num_kv_heads=16, head_dim=64, value_head_dim=64),
        DenseFfn(intermediate_size=2048),
    )
    plan = plan_of(tp=tp, cp=cp)
    whole = step(model, plan, batch=batch, q_len=120, kv_len=150)
    sharded = parallelism.shard_operators(whole, plan, model)
    body = tuple(op for op in sharded if op.name != "lm_head")
    summed = flop(body) * tp * cp + flop((named(sharded, "lm_head"),)) * tp
    assert summed == pytest.approx(flop(whole), rel=1e-12)


@given(
    tp=st.sampled_from([1, 2, 4]),
    attention_dp=st.sampled_from([1, 2, 4]),
    moe_tp=st.sampled_from([1, 2, 4]),
    exchange=st.sampled_from(["all_to_all", "all_gather_reduce_scatter"]),
)
def test_expert_flop_of_all_ranks_is_that_of_all_tokens(
    tp: int, attention_dp: int, moe_tp: int, exchange: parallelism.ExpertExchange
) -> None:
    group = tp * attention_dp
    moe_tp = min(moe_tp, group)
    plan = plan_of(tp=tp, attention_dp=attention_dp, ep=group // moe_tp, moe_tp=moe_tp)
    whole = step(SMALL_MOE, plan)
    sharded = parallelism.shard_operators(whole, plan, SMALL_MOE, expert_exchange=exchange)
    one_rank = flop((named(sharded, "experts"),))
    assert one_rank * group == pytest.approx(flop((named(whole, "experts"),)) * attention_dp)
    weights = named(sharded, "experts")
    assert isinstance(weights, GroupedGemm)
    assert (weights.ep * weights.moe_tp).tolist() == [float(group)]


@given(
    q_len=st.integers(8, 5000),
    prefix=st.integers(0, 5000),
    window=st.sampled_from([0, 1, 16, 128, 4096]),
    cp=st.integers(2, 8),
)
def test_context_parallel_pairs_are_shared_evenly(
    q_len: int, prefix: int, window: int, cp: int
) -> None:
    mixer = GqaAttention(
        num_heads=16, num_kv_heads=4, head_dim=64, value_head_dim=64, window=window
    )
    model = model_of(mixer, DenseFfn(intermediate_size=2048))
    plan = plan_of(cp=cp)
    whole = step(model, plan, q_len=q_len, kv_len=q_len + prefix)
    before, after = (
        named(whole, "attention"),
        named(parallelism.shard_operators(whole, plan, model), "attention"),
    )
    assert isinstance(before, Attention)
    assert isinstance(after, Attention)
    shared = after.visible_pairs()[0] * cp
    assert shared == pytest.approx(before.visible_pairs()[0], rel=1e-9)
    assert after.q_len[0] <= after.kv_len[0] + 1e-9
    assert after.kv_len[0] <= before.kv_len[0] + 1e-9


def test_context_ranks_share_the_scores_of_sparse_attention() -> None:
    # 4096 queries: 4096 x 4097 / 2 pairs, a quarter of them on each of four ranks, with all heads
    model = resolve_model("deepseek-ai/DeepSeek-V3.2").network
    plan = plan_of(cp=4, tp=2, moe_tp=2)
    whole = step(model, plan, q_len=4096, kv_len=4096)
    before = named(whole, "indexer_scores")
    after = named(parallelism.shard_operators(whole, plan, model), "indexer_scores")
    assert isinstance(after, KeyScores)
    assert after.q_len.tolist() == [1024.0]
    assert after.work().flop[0] == pytest.approx(before.work().flop[0] / 4, rel=1e-12)
    assert after.num_heads.tolist() == [64.0]
    selection = named(parallelism.shard_operators(whole, plan, model), "indexer_selection")
    assert isinstance(selection, KeySelection)
    assert selection.q_len.tolist() == [1024.0]
    assert selection.kv_len.tolist() == after.kv_len.tolist()


def test_two_context_ranks_see_three_quarters_of_the_keys() -> None:
    plan = plan_of(cp=2, tp=4)
    sharded = parallelism.shard_operators(
        step(SMALL_DENSE, plan, q_len=1024, kv_len=1024), plan, SMALL_DENSE
    )
    attention = named(sharded, "attention")
    assert isinstance(attention, Attention)
    assert (attention.q_len.tolist(), attention.kv_len.tolist()) == ([512.0], [768.0])
    gathered = collectives(sharded)["attention_all_gather"]
    # 2 sequences x 1024 tokens x 1 kv head per rank x (64 + 64) x 2 bytes, over ranks 4 apart
    assert gathered.bytes.tolist() == [2 * 1024 * 128 * 2]
    assert (gathered.ranks.tolist(), gathered.stride.tolist()) == ([2.0], [4.0])


def test_context_ranks_repeat_decode() -> None:
    one, two = plan_of(), plan_of(cp=2)
    alone = parallelism.shard_operators(
        step(SMALL_DENSE, one, Phase.DECODE, q_len=1), one, SMALL_DENSE
    )
    assert flop(alone) == flop(
        parallelism.shard_operators(step(SMALL_DENSE, two, Phase.DECODE, q_len=1), two, SMALL_DENSE)
    )


def test_latent_attention_gathers_the_latent_and_expands_every_key() -> None:
    plan = plan_of(cp=2, tp=8, ep=8)
    sharded = parallelism.shard_operators(step(DEEPSEEK_V3, plan, batch=1), plan, DEEPSEEK_V3)
    expansion, attention = named(sharded, "kv_b_projection"), named(sharded, "latent_attention")
    assert isinstance(expansion, Gemm)
    assert isinstance(attention, LatentAttention)
    assert expansion.m.tolist() == [128.0]
    assert attention.num_heads.tolist() == [16.0]
    gathered = collectives(sharded)["latent_attention_all_gather"]
    assert gathered.bytes.tolist() == [128 * 576 * 2]


def test_experts_without_attention_dp_end_in_one_all_reduce() -> None:
    plan = plan_of(tp=8, ep=8)
    names = list(
        collectives(parallelism.shard_operators(step(DEEPSEEK_V3, plan), plan, DEEPSEEK_V3))
    )
    assert [name for name in names if name.startswith("experts")] == ["experts_all_reduce"]
    # the shared expert rides along: no reduction of its own
    assert not any(name.startswith("shared_expert") for name in names)


def test_the_reduction_waits_for_the_shared_expert() -> None:
    plan = plan_of(tp=8, ep=8)
    order = [
        op.name for op in parallelism.shard_operators(step(DEEPSEEK_V3, plan), plan, DEEPSEEK_V3)
    ]
    assert order.index("experts_all_reduce") == order.index("shared_expert_add") + 1


def test_all_gather_exchange_by_hand() -> None:
    plan = plan_of(tp=2, attention_dp=4, ep=8)
    sharded = parallelism.shard_operators(
        step(SMALL_MOE, plan), plan, SMALL_MOE, expert_exchange="all_gather_reduce_scatter"
    )
    found = collectives(sharded)
    rows = 2 * 128 * 512 * 2  # tokens of one attention-DP rank x hidden x bytes
    assert found["experts_dispatch"].op == "all_gather"
    assert found["experts_dispatch"].bytes.tolist() == [4.0 * rows]
    assert found["experts_dispatch"].ranks.tolist() == [4.0]
    assert found["experts_dispatch"].stride.tolist() == [2.0]
    assert found["experts_combine"].op == "reduce_scatter"
    assert found["experts_all_reduce"].bytes.tolist() == [float(rows)]


def test_a_quantized_gather_moves_the_input_format_of_the_experts() -> None:
    plan = plan_of(tp=2, attention_dp=4, ep=8)
    whole = step(SMALL_MOE, plan)
    (experts,) = (op for op in whole if isinstance(op, GroupedGemm))
    narrow = tuple(
        with_fields(op, input_bytes_per_element=1.0) if op is experts else op for op in whole
    )
    found = collectives(
        parallelism.shard_operators(narrow, plan, SMALL_MOE, expert_exchange="quantized_all_gather")
    )
    elements = 4 * 2 * 128 * 512  # tokens of all attention-DP ranks x hidden
    assert found["experts_dispatch"].bytes.tolist() == [1.0 * elements]
    assert found["experts_combine"].bytes.tolist() == [2.0 * elements]


def test_all_to_all_exchange_by_hand() -> None:
    plan = plan_of(tp=2, attention_dp=4, ep=4, moe_tp=2)
    found = collectives(parallelism.shard_operators(step(SMALL_MOE, plan), plan, SMALL_MOE))
    # 16 experts on 4 groups, top 2: 4 (1 - 12/16 x 11/15) = 1.8 groups per token
    sent = 128 * 1.8 * 512 * 2  # half of the 256 tokens leave each tp rank
    assert found["experts_dispatch"].op == "dispatch"
    assert found["experts_dispatch"].bytes[0] == pytest.approx(sent)
    assert found["experts_dispatch"].ranks.tolist() == [4.0]
    assert found["experts_dispatch"].stride.tolist() == [2.0]
    assert found["experts_gather"].bytes[0] == pytest.approx(2 * sent)
    assert found["experts_reduce_scatter"].bytes[0] == pytest.approx(2 * sent)
    assert found["experts_combine"].bytes[0] == pytest.approx(sent)
    assert found["experts_all_gather"].bytes.tolist() == [256.0 * 512 * 2]
    assert "experts_all_reduce" not in found


@pytest.mark.parametrize("exchange", ["all_to_all", "deepep"])
def test_an_all_to_all_leaves_a_rank_the_tokens_it_received(
    exchange: parallelism.ExpertExchange,
) -> None:
    plan = plan_of(tp=2, attention_dp=4, ep=4, moe_tp=2)
    whole = step(SMALL_MOE, plan)
    every, sent = (
        named(parallelism.shard_operators(whole, plan, SMALL_MOE, expert_exchange=one), "experts")
        for one in ("all_gather_reduce_scatter", exchange)
    )
    assert isinstance(every, GroupedGemm)
    assert isinstance(sent, GroupedGemm)
    assert every.ranks_per_token == 0.0
    # the same work, bit for bit
    for all_of, received in zip(every.work(), sent.work(), strict=True):
        assert received.tolist() == all_of.tolist()
    # 4 x 256 tokens, 1.8 of 4 groups reached (above): 460.8 tokens with 2 / 1.8 of 4 experts each
    found = shape_columns(sent)
    assert found["tokens"] == pytest.approx(460.8)
    assert found["top_k"] == pytest.approx(2 / 1.8)
    assert (found["experts"], found["ep"], found["exchange_ranks"]) == (4.0, 1.0, 4.0)
    gathered = shape_columns(every)
    assert (gathered["tokens"], gathered["top_k"], gathered["ep"]) == (1024.0, 2.0, 4.0)
    assert gathered["exchange_ranks"] == gathered["ranks_per_token"] == 1.0


def test_only_attention_dp_exchanges_tokens() -> None:
    one = np.ones(2)
    plan = parallelism.PlanColumns(
        tp=column(4, 1), attention_dp=column(1, 4), ep=column(4, 4), moe_tp=one, pp=one, cp=one,
        dp=one, ring_degree=one, guidance_degree=one, dcp=one,
    )  # fmt: skip
    experts = named(parallelism.shard_operators(step(SMALL_MOE, plan), plan, SMALL_MOE), "experts")
    assert isinstance(experts, GroupedGemm)
    assert np.asarray(experts.ranks_per_token) == pytest.approx(np.array([0.0, 1.8]))
    assert np.asarray(shape_columns(experts)["ep"]).tolist() == [4.0, 1.0]


@given(experts=st.integers(1, 32), per_group=st.integers(1, 8), top_k=st.integers(1, 16))
def test_groups_reached_lie_between_one_and_top_k(experts: int, per_group: int, top_k: int) -> None:
    total = experts * per_group
    top_k = min(top_k, total)
    plan = plan_of(attention_dp=experts, ep=experts)
    model = model_of(
        GqaAttention(num_heads=16, num_kv_heads=4, head_dim=64, value_head_dim=64),
        MoeFfn(num_experts=total, top_k=top_k, intermediate_size=256),
    )
    local = named(parallelism.shard_operators(step(model, plan), plan, model), "experts")
    assert isinstance(local, GroupedGemm)
    groups = parallelism.expert_groups_reached(local)[0]
    assert 1.0 - 1e-12 <= groups <= min(top_k, experts) + 1e-9


def test_pipeline_sends_the_hidden_state_between_stages() -> None:
    plan = plan_of(pp=4, tp=2)
    sharded = parallelism.shard_operators(step(LLAMA_70B, plan), plan, LLAMA_70B)
    sent = collectives(sharded)["pipeline_send_recv"]
    assert sent.count.tolist() == [3.0]
    assert sent.bytes.tolist() == [2 * 128 * 8192 * 2]
    assert sent.stride.tolist() == [2.0]
    assert named(sharded, "attention").count.tolist() == [80.0]


def test_fullest_stage() -> None:
    assert parallelism.stage_share(LLAMA_70B, plan_of(pp=3))[0] == 27 / 80
    assert parallelism.stage_share(LLAMA_70B, plan_of())[0] == 1.0


def test_left_over_layers_are_before_the_last_stage() -> None:
    assert parallelism.stage_layers(LLAMA_70B, 3) == (27, 27, 26)
    assert parallelism.stage_layers(LLAMA_70B, 4) == (20, 20, 20, 20)
    assert parallelism.stage_layers(LLAMA_70B, 7) == (11, 11, 11, 12, 12, 12, 11)
    for stages in range(1, 81):
        layers = parallelism.stage_layers(LLAMA_70B, stages)
        assert sum(layers) == 80
        assert max(layers) / 80 == parallelism.stage_share(LLAMA_70B, plan_of(pp=stages))[0]


def test_a_step_that_opens_with_attention_has_no_stages() -> None:
    plan = plan_of(pp=2)
    only = (named(step(SMALL_DENSE, plan), "attention"),)
    with pytest.raises(UnsupportedError, match="stages"):
        parallelism.shard_operators(only, plan, SMALL_DENSE)


def test_columns_of_plans_mix_ranks() -> None:
    plan = parallelism.PlanColumns(
        tp=column(1, 2), pp=column(1, 1), cp=column(1, 1), attention_dp=column(4, 1),
        ep=column(4, 2), moe_tp=column(1, 1), dp=column(1, 1), ring_degree=column(1, 1),
        guidance_degree=column(1, 1), dcp=column(1, 1),
    )  # fmt: skip
    tokens = StepTokens(
        batch=column(8, 8), q_len=column(1, 1), kv_len=column(64, 64), head_ranks=plan.tp
    )
    whole = SMALL_MOE.step_operators(BF16, Phase.DECODE, tokens)
    found = collectives(parallelism.shard_operators(whole, plan, SMALL_MOE))
    assert found["experts_dispatch"].count.tolist() == [4.0, 0.0]
    assert found["experts_all_reduce"].count.tolist() == [0.0, 4.0]
    assert found["output_projection_all_reduce"].count.tolist() == [0.0, 4.0]
    assert all(not isinstance(op, Scan) for op in whole)
