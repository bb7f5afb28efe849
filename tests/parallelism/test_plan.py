from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.networks import DenseFfn, GatedDeltaNet, GqaAttention, LayerGroup
from perfatlas.parallelism import PlanColumns, default_moe_split, plan_problems
from tests.parallelism.examples import DEEPSEEK_V3, LLAMA_70B, SMALL_MOE, column, model_of, plan_of


def test_gpus_of_a_replica_and_of_all() -> None:
    plan = plan_of(tp=4, pp=2, cp=2, attention_dp=2, dp=3)
    assert plan.gpus_per_replica.tolist() == [32.0]  # 4 x 2 x 2 x 2
    assert plan.ranks.tolist() == [96.0]


def test_legal_plans_have_no_problem() -> None:
    assert plan_problems(LLAMA_70B, plan_of(tp=8)) == [None]
    assert plan_problems(LLAMA_70B, plan_of(tp=16)) == [None]  # 8 kv heads, two copies each
    assert plan_problems(LLAMA_70B, plan_of(tp=8, moe_tp=8)) == [None]
    assert plan_problems(DEEPSEEK_V3, plan_of(attention_dp=8, ep=8)) == [None]
    assert plan_problems(DEEPSEEK_V3, plan_of(tp=2, attention_dp=8, ep=4, moe_tp=4)) == [None]


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"tp": 12}, "num_heads = 64 must be divisible by tp; nearest valid tp: 8 or 16"),
        ({"pp": 81}, "the model has 80 layers; pp is at most 80"),
        ({"ep": 2}, "the model is dense; use ep = 1"),
        ({"moe_tp": 2}, "the model is dense; leave moe_tp out"),
        ({"attention_dp": 2}, "use dp = 2 instead"),
        ({"tp": 0}, "tp = 0: must be a positive integer"),
        ({"dp": 1.5}, "dp = 1.5: must be a positive integer"),
        ({"cp": np.nan}, "cp = nan: must be a positive integer"),
        ({"tp": np.inf}, "tp = inf: must be a positive integer"),
    ],
)
def test_refusals_of_a_dense_model(sizes: dict[str, float], sentence: str) -> None:
    (problem,) = plan_problems(LLAMA_70B, plan_of(**sizes))
    assert problem is not None
    assert sentence in problem


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"tp": 8}, "tp x attention_dp = 8 x 1 = 8 must equal ep x moe_tp = 1 x 1 = 1"),
        ({"attention_dp": 6, "ep": 6}, "num_experts = 256 must be divisible by ep; nearest"),
        ({"attention_dp": 6, "moe_tp": 6}, "moe_intermediate_size = 2048 must be divisible"),
    ],
)
def test_refusals_of_an_expert_model(sizes: dict[str, float], sentence: str) -> None:
    (problem,) = plan_problems(DEEPSEEK_V3, plan_of(**sizes))
    assert problem is not None
    assert sentence in problem


def test_kv_heads_must_divide_or_be_copied_evenly() -> None:
    mixer = GqaAttention(num_heads=48, num_kv_heads=6, head_dim=128, value_head_dim=128)
    model = model_of(mixer, DenseFfn(intermediate_size=4096))
    assert plan_problems(model, plan_of(tp=2)) == [None]
    (problem,) = plan_problems(model, plan_of(tp=4))
    assert problem is not None
    assert "num_kv_heads = 6 must be divisible by tp" in problem


def test_the_valid_choice_named_breaks_no_other_rule() -> None:
    mixer = GqaAttention(num_heads=28, num_kv_heads=4, head_dim=128, value_head_dim=128)
    model = model_of(mixer, DenseFfn(intermediate_size=28672))
    (problem,) = plan_problems(model, plan_of(tp=8))
    assert problem is not None
    assert problem.endswith("nearest valid tp: 4 or 28")  # 7 and 14 do not fit 4 heads
    assert plan_problems(model, plan_of(tp=28)) == [None]


def test_a_recurrent_mixer_refuses_context_parallelism() -> None:
    mixer = GatedDeltaNet(
        num_key_heads=16, num_value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4
    )
    group = LayerGroup(count=2, mixer=mixer, ffn=None)
    model = replace(LLAMA_70B, layers=(group,))
    assert plan_problems(model, plan_of(tp=16)) == [None]
    (problem,) = plan_problems(model, plan_of(cp=2))
    assert problem is not None
    assert "use cp = 1" in problem
    (problem,) = plan_problems(model, plan_of(tp=32))
    assert problem is not None
    assert "linear-attention key heads = 16" in problem


def test_default_split_fills_what_is_missing() -> None:
    nan = np.nan
    ep, moe_tp = default_moe_split(
        column(8, 8, 8, 8), column(2, 2, 2, 2), column(nan, 4, nan, 16), column(nan, nan, 2, 1)
    )
    assert ep.tolist() == [1.0, 4.0, 8.0, 16.0]
    assert moe_tp.tolist() == [16.0, 4.0, 2.0, 1.0]


SIZE = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-2, 40).map(float)


@given(st.lists(st.tuples(*[SIZE] * 8), min_size=1, max_size=8))
def test_any_numbers_give_a_sentence_or_a_plan_that_divides(rows: list[tuple[float, ...]]) -> None:
    tp, pp, cp, attention_dp, ep, moe_tp, dp, ring = np.array(rows, dtype=np.float64).T
    plan = PlanColumns(
        tp=tp, pp=pp, cp=cp, attention_dp=attention_dp, ep=ep, moe_tp=moe_tp, dp=dp,
        ring_degree=ring, guidance_degree=np.ones_like(ring), dcp=np.ones_like(ring),
    )  # fmt: skip
    for index, problem in enumerate(plan_problems(SMALL_MOE, plan)):
        if problem is None:
            assert tp[index] * attention_dp[index] == ep[index] * moe_tp[index]
            assert 16 % tp[index] == 0
            assert 16 % ep[index] == 0
            assert 256 % moe_tp[index] == 0


def test_a_column_answers_like_single_plans() -> None:
    sizes = [1.0, 2.0, 3.0, 8.0, 12.0, 16.0, 128.0]
    one = np.ones(len(sizes))
    plan = PlanColumns(
        tp=column(*sizes), pp=one, cp=one, attention_dp=one, ep=one, moe_tp=one, dp=one,
        ring_degree=one, guidance_degree=one, dcp=one,
    )  # fmt: skip
    alone = [plan_problems(LLAMA_70B, plan_of(tp=size))[0] for size in sizes]
    assert plan_problems(LLAMA_70B, plan) == alone
