"""Training steps: FLOP, waterfall, limits and the independence of candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.networks import resolve_model
from perfatlas.operators import Attention, busiest_rank
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import WATERFALL, training_steps
from tests.training.asked import BF16, gpt, layouts, question


def test_zero_2_hides_no_more_than_the_backward_passes_of_its_micro_batches() -> None:
    # each micro-batch is reduced beside its own backward pass: interleaving gives no more time
    sizes = layouts(tp=8, pp=16, vpp=8, dp=64, global_batch=2048, sequence_length=8192, zero=2)
    steps = training_steps(
        question(
            sizes, model="meta-llama/Llama-3.1-405B", engine="megatron", schedule="interleaved"
        )
    )
    # the rank with most parameters: 8 layers of 3.15 billion parameters over tp 8, fp32, at the
    # 50 GB/s of its NIC
    sent_s = 32 * 8 * 3.15e9 / 8 * 4.0 * 63 / 64 / 50e9
    exposed_s_C = steps.waterfall["exposed_dp"]
    hidden_s_C = np.maximum(sent_s - exposed_s_C, 0.0)
    backward_s_C = steps.waterfall["compute"] * 0.7
    assert (hidden_s_C < backward_s_C).all()


def test_model_flop_are_those_of_the_convention() -> None:
    steps = training_steps(question(layouts(sequence_length=8192, global_batch=2)))
    # 6 FLOP per token and parameter in products: 32 layers of (2 x 4096 + 2 x 1024) x 4096 and
    # 3 x 4096 x 14336, and the head of 128256 x 4096; causal attention 6 x 32 x 4096 x 8193
    layer = (2 * 4096 + 2 * 1024) * 4096 + 3 * 4096 * 14336
    per_token = 6 * (32 * layer + 128256 * 4096) + 6 * 32 * 4096 * 8193
    assert steps.model_flop_C[0] == pytest.approx(per_token * 2 * 8192, rel=1e-12)


def test_flop_do_not_depend_on_the_layout() -> None:
    sizes = layouts(tp=[1, 2, 4, 1, 2], pp=[1, 1, 2, 4, 2], cp=[1, 1, 1, 2, 2], dp=[1, 2, 2, 2, 1])
    flop_C = training_steps(question(sizes)).model_flop_C
    assert flop_C == pytest.approx(np.full(5, flop_C[0]), rel=1e-9)


@pytest.mark.parametrize("engine", ["ideal", "megatron", "torchtitan", "fsdp"])
def test_the_waterfall_sums_to_the_step(engine: str) -> None:
    sizes = layouts(
        tp=[1, 2, 4, 8, 2, 1], pp=[1, 2, 1, 2, 4, 1], cp=[1, 1, 2, 1, 2, 4], dp=[8, 2, 1, 4, 2, 2],
        zero=[0, 1, 2, 1, 3, 3], recompute=[0, 1, 2, 2, 0, 1], global_batch=32,
    )  # fmt: skip
    steps = training_steps(question(sizes, engine=engine))
    parts = np.stack([steps.waterfall[name] for name in WATERFALL])
    assert tuple(steps.waterfall) == WATERFALL
    assert parts.sum(axis=0) == pytest.approx(steps.step_s_C, rel=1e-12)
    assert np.all(parts >= -1e-12)
    assert np.all(steps.low_s_C <= steps.step_s_C)
    assert np.all(steps.step_s_C <= steps.high_s_C)


def test_candidates_do_not_change_each_other() -> None:
    sizes = layouts(tp=[1, 2, 4], pp=[2, 1, 4], dp=[2, 4, 1], global_batch=32)
    together = training_steps(question(sizes, engine="megatron"))
    for at, (tp, pp, dp) in enumerate(((1, 2, 2), (2, 1, 4), (4, 4, 1))):
        alone = training_steps(
            question(layouts(tp=tp, pp=pp, dp=dp, global_batch=32), engine="megatron")
        )
        assert together.step_s_C[at] == alone.step_s_C[0]
        assert together.memory.total_bytes[at] == alone.memory.total_bytes[0]


def test_data_parallelism_is_perfect_where_communication_is_free() -> None:
    # 64 times the GPUs and the batch: the same kernels, and what remains is the optimizer
    steps = training_steps(question(layouts(dp=[1, 64], global_batch=[4, 256], zero=0)))
    compute = steps.waterfall["compute"]
    assert compute[0] == compute[1]
    assert steps.waterfall["optimizer"][0] == steps.waterfall["optimizer"][1]
    assert steps.waterfall["exposed_dp"][0] == 0.0


def test_the_bubble_of_equal_stages_is_the_closed_form() -> None:
    # without embedding and head the stages are equal: (p - 1)(F + B) of 4 stages, m = 8
    steps = training_steps(question(
        layouts(pp=4, global_batch=8), model=replace(gpt(16, 4096, 32), vocab_size=1)
    ))  # fmt: skip
    each_s = steps.waterfall["compute"] / 8.0
    assert steps.waterfall["bubble"] == pytest.approx(3.0 * each_s, rel=2e-2)


def test_interleaving_divides_the_bubble() -> None:
    sizes = layouts(pp=4, vpp=[2, 4, 8], global_batch=32)
    bubble_C = training_steps(question(sizes, schedule="interleaved")).waterfall["bubble"]
    assert bubble_C[0] > bubble_C[1] > bubble_C[2] > 0.0


def test_recomputation_adds_a_forward_pass_and_no_model_flop() -> None:
    steps = training_steps(question(layouts(recompute=[0, 1, 2])))
    assert steps.hardware_flop_C[0] == steps.model_flop_C[0] == steps.model_flop_C[2]
    forward = 1.0 - steps.hardware_flop_C[0] / steps.hardware_flop_C[2]
    # the layers of an 8B model without its head are a forward pass of four
    assert forward == pytest.approx(0.25, abs=0.02)
    assert 0.0 < steps.waterfall["recompute"][1] < steps.waterfall["recompute"][2]


def test_sequence_parallelism_scatters_what_was_reduced() -> None:
    sizes = layouts(tp=4, sequence_parallel=[True, False])
    steps = training_steps(question(sizes))
    exchanged = {one.op for one in steps.costs.exchanges}
    assert exchanged == {"all_gather", "reduce_scatter", "all_reduce"}
    assert np.all(steps.waterfall["exposed_tp"] > 0.0)
    assert steps.memory.activations_bytes[0] < steps.memory.activations_bytes[1]


def test_more_expensive_links_expose_more() -> None:
    fast = training_steps(question(layouts(dp=16, global_batch=16, zero=3)))
    slow = training_steps(
        question(
            layouts(dp=16, global_batch=16, zero=3), system="h100_sxm{node.nic_bandwidth=1GB/s}"
        )
    )
    assert slow.waterfall["exposed_dp"] > 10.0 * fast.waterfall["exposed_dp"]
    assert slow.waterfall["compute"] == fast.waterfall["compute"]


def test_jitter_is_the_expected_maximum_of_all_ranks() -> None:
    engine = replace(resolve_training_engine("ideal"), jitter=0.01)
    steps = training_steps(question(layouts(dp=[1, 8], global_batch=8), engine=engine))
    # normal: the expected maximum of eight is 1.4236 deviations (Teichroew 1956, table I)
    rest_C = steps.step_s_C - steps.waterfall["jitter"]
    assert steps.waterfall["jitter"][0] == 0.0
    assert steps.waterfall["jitter"][1] / rest_C[1] == pytest.approx(0.014236, abs=1e-7)


@pytest.mark.parametrize(
    ("model", "system", "ratio"),
    [
        ("openai/gpt-oss-20b", "h100_sxm", 0.55),
        ("openai/gpt-oss-20b", "b200_sxm", 1.0),
        ("Qwen/Qwen3-30B-A3B", "h100_sxm", 1.0),
    ],
)
def test_attention_with_sinks_has_a_speed_of_its_own_on_hopper(
    model: str, system: str, ratio: float
) -> None:
    # automodel: Transformer Engine as its calibration, FlexAttention with sinks at 0.55
    engine = resolve_training_engine("automodel")
    fused = replace(engine, attention_speed_hopper_sinks=engine.attention_speed_hopper)
    times_s = []
    for one in (engine, fused):
        costs = training_steps(
            question(layouts(dp=8, ep=8, zero=3), model=model, system=system, engine=one)
        ).costs
        at = [place for place, row in enumerate(costs.rows) if isinstance(row.operator, Attention)]
        times_s.append(costs.prices.time_s_CO[0, at])
    assert len(times_s[0]) > 0
    assert times_s[1] / times_s[0] == pytest.approx(ratio, rel=1e-9)


def test_engines_that_keep_whole_gradients_reduce_once() -> None:
    sizes = layouts(pp=4, dp=8, zero=[1, 2, 3], global_batch=256)
    slow = "h100_sxm{node.nic_bandwidth=10GB/s}"
    each = training_steps(question(sizes, engine="megatron", system=slow)).waterfall["exposed_dp"]
    once = training_steps(question(sizes, engine="torchtitan", system=slow))
    exposed_C = once.waterfall["exposed_dp"]
    # torch.distributed.pipelining reduces in the last backward pass, as ZeRO-1 does
    assert exposed_C.tolist() == [exposed_C[0]] * 3
    assert each[1] > 2.0 * each[0]
    assert each[2] > each[1]


def test_a_sharded_model_has_the_parameters_of_the_whole() -> None:
    whole = resolve_model("meta-llama/Llama-3.1-8B").network
    sizes = layouts(tp=[1, 2, 4], pp=[1, 1, 2], zero=0)
    steps = training_steps(question(sizes, model=whole))
    held_C = steps.stages.dense_CS.sum(axis=1) * sizes.tp
    small = 65 * 4096  # norms, on every rank of a tensor-parallel group
    assert held_C == pytest.approx(8_030_261_248 + (sizes.tp - 1) * small, rel=1e-9)


def test_experts_exchange_tokens_and_multiply_the_same_rows() -> None:
    sizes = layouts(dp=8, ep=[1, 8], global_batch=8)
    steps = training_steps(question(sizes, model="Qwen/Qwen3-30B-A3B", distribution="balanced"))
    assert steps.model_flop_C[0] == pytest.approx(steps.model_flop_C[1], rel=1e-12)
    assert steps.waterfall["exposed_ep"][0] == 0.0
    assert steps.waterfall["exposed_ep"][1] > 0.0
    # 6 FLOP for each token and active parameter, and attention: 3.04 billion without the embedding
    per_token = steps.model_flop_C[0] / (8 * 4096)
    assert per_token == pytest.approx(6 * 3.04e9 + 6 * 48 * 4096 * 4096, rel=2e-2)


def test_skewed_routing_waits_for_the_busiest_rank() -> None:
    steps, names = {}, ("balanced", "uniform", "power_law_0.5", "power_law_1.2")
    for name in names:
        sizes = layouts(dp=32, ep=[1, 4, 32], global_batch=64)
        steps[name] = training_steps(
            question(sizes, model="Qwen/Qwen3-30B-A3B", engine="ideal", distribution=name)
        )
    times_NC = np.stack([steps[name].step_s_C for name in names])
    flop_NC = np.stack([steps[name].model_flop_C for name in names])
    assert (np.diff(times_NC[:, 1:], axis=0) > 0.0).all()
    assert times_NC[:, 0] == pytest.approx(np.full(4, times_NC[0, 0]), rel=0.02)
    assert flop_NC == pytest.approx(np.full(flop_NC.shape, flop_NC[0, 0]))


def test_the_busiest_rank_of_uniform_routing_is_that_of_random_draws() -> None:
    tokens, experts, top_k, ep = 512, 64, 4, 8
    rng = np.random.default_rng(1)
    chosen = rng.random((400, tokens, experts)).argpartition(top_k, axis=2)[:, :, :top_k]
    rank = chosen // (experts // ep)
    rows = np.stack([(rank == one).sum(axis=(1, 2)) for one in range(ep)])
    expected = rows.max(axis=0).mean() / (tokens * top_k / ep)
    found = busiest_rank("uniform", np.array([512.0]), experts, top_k, np.array([8.0]))
    assert found[0] == pytest.approx(expected, rel=0.005)


def test_quantized_steps_quantize_gradients_and_keep_the_head() -> None:
    formats = replace(BF16, gemm="fp8_dynamic")
    steps = training_steps(question(layouts(), formats=formats))
    rows = {row.operator.name: row.operator for row in steps.costs.rows}
    assert rows["gate_up_projection"].compute_format == "fp8_dynamic"
    assert rows["lm_head"].compute_format == "bf16"
    assert "gate_up_projection_gradient_quantize" in rows
    plain = training_steps(question(layouts()))
    assert steps.step_s_C[0] < plain.step_s_C[0]
    assert steps.model_flop_C[0] == plain.model_flop_C[0]


@pytest.mark.parametrize(("schedule", "vpp"), [("zb_v", 2), ("zb_h1", 1), ("dualpipe", 1)])
def test_schedules_without_bubbles_are_faster(schedule: str, vpp: int) -> None:
    sizes = layouts(pp=4, global_batch=16)
    plain = training_steps(question(sizes))
    other = training_steps(question(layouts(pp=4, vpp=vpp, global_batch=16), schedule=schedule))
    assert other.step_s_C[0] < plain.step_s_C[0]
    parts = np.stack([other.waterfall[name] for name in WATERFALL])
    assert parts.sum(axis=0) == pytest.approx(other.step_s_C, rel=1e-9)


def test_the_first_gather_and_the_last_reduction_of_fsdp_wait_for_all_ranks() -> None:
    # long sequences hide all others; LL128 over 4,096 H100: 14 us, 3,584 hops of 1.9 us and 511
    # of 4 us, 8.87 ms
    engine = replace(resolve_training_engine("fsdp"), communication_sms=0)
    sizes = {"dp": 4096, "zero": 3, "sequence_length": 32768, "recompute": 2}
    once, twice = (
        training_steps(question(layouts(global_batch=count, **sizes), engine=engine))
        for count in (4096, 8192)
    )
    assert once.waterfall["exposed_dp"][0] >= 2 * 8.87e-3
    # every micro-batch gathers its first layer
    assert (twice.waterfall["exposed_dp"] - once.waterfall["exposed_dp"])[0] >= 8.87e-3
