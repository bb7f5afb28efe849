"""Recipes: adapters, recomputed modules, multi-token prediction, optimizers and offloading."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfatlas.networks import resolve_model
from perfatlas.quantities import InfeasibleError
from perfatlas.training.layouts import stage_layers
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.recipe import Recipe
from perfatlas.training.step import TrainingSteps, lower_bounds, micro_batch_costs, training_steps
from perfatlas.training.step.optimizer import newton_schulz
from perfatlas.training.step.states import optimizer_states
from perfatlas.training.work import Part
from perfatlas.verbs.train import train
from tests.training.asked import layouts, question

LLAMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
# Llama-3.1-8B: 32 layers of 4096 x (4096 + 2 x 1024), 4096 x 4096 and 3 x 4096 x 14336
H, WIDTH, F, LAYERS, VOCAB = 4096.0, 6144.0, 14336.0, 32.0, 128256.0


def steps_of(recipe: Recipe, **others: Any) -> TrainingSteps:  # noqa: ANN401 - fields of a question
    sizes = others.pop("sizes", layouts())
    return training_steps(question(sizes, recipe=recipe, **others))


def test_adapters_have_the_parameters_and_flop_of_the_paper() -> None:
    # arXiv 2106.09685: r (n + k) parameters for a layer of n x k
    rank = 16.0
    steps = steps_of(Recipe(lora_rank=16))
    each = (H + WIDTH) + (H + H) + (H + 2 * F) + (F + H)
    trained = LAYERS * rank * each
    assert steps.stages.trained_dense_CS.sum() == pytest.approx(trained, rel=1e-12)
    assert steps.memory.gradients_bytes[0] == pytest.approx(4 * trained, rel=1e-12)
    assert steps.memory.optimizer_bytes[0] == pytest.approx(12 * trained, rel=1e-12)
    # of frozen products 4 FLOP per parameter and token instead of 6, of adapters 6
    whole = steps_of(Recipe()).model_flop_C[0]
    tokens, frozen = 16 * 4096, LAYERS * (H * WIDTH + H * H + 3 * H * F) + VOCAB * H
    expected = whole - 2 * frozen * tokens + 6 * trained * tokens
    assert steps.model_flop_C[0] == pytest.approx(expected, rel=1e-12)


def test_frozen_layers_have_no_weight_gradients_and_keep_no_inputs() -> None:
    steps = steps_of(Recipe(lora_rank=8, lora_targets="qkv"))
    gradients = [row for row in steps.costs.rows if row.part == Part.WEIGHT_GRADIENT]
    assert {row.operator.name for row in gradients} == {
        "qkv_projection_lora_down",
        "qkv_projection_lora_up",
    }
    # per token and layer: two norms, queries, keys and values, gate and up with its softmax
    # statistics, and the adapter's inputs of 4096 and 8; without products all else is dropped
    kept = 2 * (2 * H + WIDTH + 2 * F + H + 8) + 4 * 32
    assert steps.costs.saved_bytes_LUG[0, 0, 1] == pytest.approx(4096 * kept, rel=1e-12)


def test_adapters_lower_the_step_and_what_is_reduced() -> None:
    sizes = layouts(dp=8, global_batch=64)
    tuned = steps_of(Recipe(lora_rank=16), sizes=sizes, engine="megatron")
    whole = steps_of(Recipe(), sizes=sizes, engine="megatron")
    assert tuned.waterfall["exposed_dp"] < 0.02 * whole.waterfall["exposed_dp"]
    # a third less of the products: between 4/6 and 1 with adapters and attention
    assert 0.66 < tuned.step_s_C[0] / whole.step_s_C[0] < 0.8


def test_muon_multiplies_what_newton_schulz_needs() -> None:
    # five iterations of 4 a^2 b + 2 a^3 FLOP for every matrix of a x b, a <= b
    sizes = layouts(zero=0)
    asked = question(sizes, tier="bound", optimizer="muon")
    steps = training_steps(asked)
    matrices = ((H, H), (1024.0, H), (1024.0, H), (H, H), (H, 2 * F), (H, F))
    flop = 5 * LAYERS * sum(4 * a * a * b + 2 * a**3 for a, b in matrices)
    time_s = newton_schulz(asked, steps.costs, steps.stages).time_s[0]
    assert time_s == pytest.approx(flop / asked.devices().peak_flop_per_s("bf16")[0], rel=0.02)
    # master weights and one moment, two of the embedding and the head
    ends = 2 * VOCAB * H
    total = asked.network.parameters().total
    expected = 8 * (total - ends) + 12 * ends
    assert steps.memory.optimizer_bytes[0] == pytest.approx(expected, rel=1e-9)


def test_ranks_divide_matrices_of_muon_but_none_has_less_than_one() -> None:
    sizes = layouts(dp=[1, 8, 4096], global_batch=4096)
    asked = question(sizes, tier="bound", optimizer="muon")
    steps = training_steps(asked)
    one, eight, many = newton_schulz(asked, steps.costs, steps.stages).time_s
    assert eight == pytest.approx(one / 8, rel=1e-9)
    longest = 5 * (4 * H * H * 2 * F + 2 * H**3)
    assert many == pytest.approx(longest / asked.devices().peak_flop_per_s("bf16")[0], rel=0.02)


def test_moments_have_the_bytes_of_their_format() -> None:
    for name, each in (("fp32", 12.0), ("bf16", 8.0), ("fp8", 6.0)):
        asked = question(layouts(zero=0), recipe=Recipe(moment_format=name))
        steps = training_steps(asked)
        held = steps.stages.dense_CS.sum()
        assert optimizer_states(asked, steps.stages)[0, 0] == pytest.approx(each * held, rel=1e-12)


def test_multi_token_prediction_is_a_layer_a_projection_and_a_head() -> None:
    plain, deep = (steps_of(Recipe(mtp_depth=depth)) for depth in (0, 1))
    layer = H * WIDTH + H * H + 3 * H * F
    tokens = 16 * 4096
    more = layer + 2 * H * H + VOCAB * H
    attention = 6 * H * 4097  # causal, 6 per query, key and width
    expected = tokens * (6 * more + attention)
    assert deep.model_flop_C[0] - plain.model_flop_C[0] == pytest.approx(expected, rel=1e-9)
    # the head and the embedding are shared
    added = deep.stages.dense_CS.sum() - plain.stages.dense_CS.sum()
    assert added == pytest.approx(layer + 2 * H * H, rel=1e-4)


def test_multi_token_prediction_has_experts_on_the_last_stage() -> None:
    sizes = layouts(pp=2, dp=8, ep=8, global_batch=16)
    plain, deep = (
        steps_of(Recipe(mtp_depth=depth), sizes=sizes, model=DEEPSEEK, engine="megatron")
        for depth in (0, 2)
    )
    first, last = (deep.stages.expert_CS - plain.stages.expert_CS)[0]
    assert first == 0.0
    assert last == pytest.approx(2 * 256 / 8 * 3 * 7168 * 2048, rel=1e-12)


def test_recomputed_modules_keep_what_megatron_keeps() -> None:
    def kept(modules: str) -> float:
        recipe = Recipe(recompute_modules=tuple(modules.split(",")))
        sizes = layouts(recompute=1)
        steps = steps_of(recipe, sizes=sizes, model=DEEPSEEK, engine="megatron")
        return float(steps.costs.saved_bytes_LUG[1, 0, 2]) / 4096  # a MoE layer, per token

    core = kept("core_attn")
    # inputs of the fused query and key-value projection and of the router: outputs of two norms
    assert core - kept("core_attn,layernorm") == pytest.approx(2 * 2 * 7168)
    # queries, keys of 192 and values of 128 for 128 heads
    assert core - kept("core_attn,mla_up_proj") == pytest.approx(2 * 128 * (192 + 192 + 128))
    # outputs of the activation of 8 experts of 2048
    assert core - kept("core_attn,moe_act") == pytest.approx(2 * 8 * 2048)
    # of the experts and the shared one nothing but the router's input remains
    assert core - kept("core_attn,moe") == pytest.approx(2 * (8 * (7168 + 3 * 2048) + 3 * 2048))


def test_recomputed_modules_cost_their_operators() -> None:
    modules = ("core_attn", "mlp")
    asked = question(layouts(recompute=1), recipe=Recipe(recompute_modules=modules))
    steps = training_steps(asked)
    costs = steps.costs
    names = ("attention", "gate_up_projection", "activation", "down_projection")
    again_s = sum(
        float(costs.prices.time_s_CO[0, at])
        for at, row in enumerate(costs.rows)
        if row.part == Part.FORWARD and row.operator.name in names
    )
    expected = 16 * LAYERS * again_s
    assert steps.waterfall["recompute"][0] == pytest.approx(expected, rel=1e-9)


def test_selective_recomputation_of_operators_repeats_every_second_product() -> None:
    # torchtitan: keys, output projection and up projection, and all norms and activations
    steps = training_steps(question(layouts(recompute=1), engine="torchtitan"))
    costs = steps.costs
    shares = {"qkv_projection": 1024 / 6144, "output_projection": 1.0, "gate_up_projection": 0.5}
    shares |= dict.fromkeys(("input_norm", "ffn_norm", "rope_and_cache", "activation"), 1.0)
    again_s = sum(
        shares.get(row.operator.name, 0.0) * float(costs.prices.time_s_CO[0, at])
        for at, row in enumerate(costs.rows)
        if row.part == Part.FORWARD and row.segment == 1
    )
    assert steps.waterfall["recompute"][0] == pytest.approx(16 * LAYERS * again_s, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "last", "vpp", "expected"),
    [
        (2, 0, 1, [2, 10, 10, 10]),
        (5, 3, 1, [5, 12, 12, 3]),
        (0, 2, 1, [10, 10, 10, 2]),
        (4, 4, 2, [2, 6, 6, 2, 2, 6, 6, 2]),
    ],
)
def test_given_stages_have_their_layers(
    first: int, last: int, vpp: int, expected: list[int]
) -> None:
    held = stage_layers(32, layouts(pp=4, vpp=vpp), first, last)
    assert held[0].tolist() == expected


def test_the_second_memory_limits_what_is_offloaded() -> None:
    # 70.55e9 parameters on 8 GPUs: 12 bytes of states each
    states_bytes = 12 * 70.5537e9 / 8
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "gpus": 8, "tp": 8}
    asked |= {"global_batch": 8, "sequence_length": 4096, "optimizer_offload": 1.0}
    asked |= {"offload_bandwidth": "50GB/s"}

    def trained(capacity_bytes: float) -> Any:  # noqa: ANN401 - results
        capacity = f"device.second_memory.capacity={capacity_bytes:.0f}B"
        return train(**asked, system=f"gb200{{{capacity}}}").results

    assert trained(1.001 * states_bytes)["memory"]["optimizer_bytes"] == 0.0
    with pytest.raises(InfeasibleError, match="leave 106 GB to the second memory"):
        trained(0.999 * states_bytes)
    # activations of all micro-batches in flight count too
    asked["activation_offload"] = 0.5
    with pytest.raises(InfeasibleError, match="to the second memory"):
        trained(1.001 * states_bytes)


def test_offloaded_activations_leave_over_the_link_beside_computation() -> None:
    sizes = layouts(sequence_length=8192)
    full = steps_of(Recipe(), sizes=sizes)
    half = steps_of(Recipe(activation_offload=0.5), sizes=sizes)
    layer = float(full.costs.saved_bytes_LUG[0, 0, 1])
    # half of 32 layers less, and two half layers on their way
    freed = full.memory.activations_bytes[0] - half.memory.activations_bytes[0]
    loss = 0.0  # the engine keeps one copy of the logits
    assert freed == pytest.approx(0.5 * layer * (LAYERS - 2) + loss, rel=1e-9)
    # PCIe 5.0 x16 moves them more slowly than a layer computes: it is exposed, forward and backward
    times_s = full.costs.time_s[0].sum(axis=1)[:, 0, 1]
    moved_s = 0.5 * layer / 64e9
    windows = (times_s[0], times_s[1] + times_s[2])
    expected = 16 * LAYERS * sum(max(moved_s - one, 0.0) for one in windows)
    exposed = half.waterfall["exposed_offload"][0]
    assert exposed >= expected > 0.0
    # what is hidden slows computation by the bandwidth of the link at most
    assert exposed - expected <= 0.03 * half.waterfall["compute"][0]


def test_states_on_the_host_cost_the_slowest_of_link_and_update() -> None:
    sizes = layouts(dp=8, global_batch=64)
    recipe = Recipe(optimizer_offload=1.0, offload_bandwidth=77e9)
    steps = steps_of(recipe, sizes=sizes)
    own = steps.stages.dense_CS.sum() / 8
    assert steps.memory.optimizer_bytes[0] == 0.0
    expected = max(own * 4 / 64e9, own * 2 / 64e9, 2 * own * 12 / 77e9)
    assert steps.waterfall["optimizer"][0] == pytest.approx(expected, rel=1e-9)
    nvme = steps_of(replace(recipe, offload_bandwidth=6e9), sizes=sizes)
    assert nvme.waterfall["optimizer"][0] == pytest.approx(2 * own * 12 / 6e9, rel=1e-9)


def test_delayed_scaling_casts_in_the_kernel_before() -> None:
    """Norms and activations know the scale; outputs of attention and gradients are cast alone."""
    casts, times = {}, {}
    for name in ("fp8_static", "fp8_dynamic"):
        formats = replace(question(layouts()).formats, gemm=name)
        costs = micro_batch_costs(question(layouts(), formats=formats))
        named = {row.operator.name: row.part for row in costs.rows}
        casts[name] = {
            one for one, part in named.items() if part == Part.FORWARD and "quant" in one
        }
        times[name] = costs.time_s[0].sum()
    every = ("qkv_projection", "output_projection", "gate_up_projection", "down_projection")
    assert casts["fp8_dynamic"] == {f"{name}_quantize" for name in every}
    assert casts["fp8_static"] == {"output_projection_quantize"}
    assert times["fp8_static"] < times["fp8_dynamic"]


def test_frozen_weights_may_be_stored_in_fp8() -> None:
    sizes = layouts(dp=8, zero=[1, 3], global_batch=64)
    wide = steps_of(Recipe(lora_rank=16), sizes=sizes)
    narrow = steps_of(Recipe(lora_rank=16, fp8_parameter_gather=True), sizes=sizes)
    # one byte less of all layers, and none of the embedding, the head and the adapters
    layers = (wide.stages.dense_CS - wide.stages.trained_dense_CS)[0].sum() - 2 * VOCAB * H
    freed = wide.memory.weights_bytes - narrow.memory.weights_bytes
    assert freed == pytest.approx(np.array([layers, layers / 8]), rel=1e-9)
    assert narrow.memory.optimizer_bytes == pytest.approx(wide.memory.optimizer_bytes)
    assert narrow.step_s_C[0] == wide.step_s_C[0]  # adapters alone are reduced and gathered


def test_adapters_of_70_billion_weights_fit_one_gpu_with_fp8_weights() -> None:
    asked = {
        "model": "meta-llama/Llama-3.1-70B", "system": "b200_sxm", "gpus": 1, "lora_rank": 16,
        "sequence_length": 2048, "global_batch": 8, "format": "fp8",
    }  # fmt: skip
    with pytest.raises(InfeasibleError) as refused:
        train(**asked)
    assert refused.value.advice[0] == "set fp8_parameter_gather = true"
    memory = train(**asked, fp8_parameter_gather=True).results["memory"]
    assert 70e9 < memory["weights_bytes"] < 76e9


def test_fp8_weights_are_stored_and_gathered_in_one_byte() -> None:
    sizes = layouts(dp=8, zero=[1, 3], global_batch=64)
    wide = steps_of(Recipe(), sizes=sizes)
    narrow = steps_of(Recipe(fp8_parameter_gather=True), sizes=sizes)
    ends = 2 * VOCAB * H
    layers = wide.stages.dense_CS[0].sum() - ends
    freed = wide.memory.weights_bytes - narrow.memory.weights_bytes
    assert freed == pytest.approx(np.array([layers, layers / 8]), rel=1e-9)
    engine = replace(resolve_training_engine("megatron"), gradient_overlap=False)
    times = [
        steps_of(recipe, sizes=layouts(dp=64, global_batch=64), engine=engine)
        .waterfall["exposed_dp"][0]
        for recipe in (Recipe(), Recipe(fp8_parameter_gather=True))
    ]  # fmt: skip
    assert times[1] < times[0]


def test_replicas_of_shards_hold_more_and_reduce_their_shards_over_nics() -> None:
    sizes = layouts(dp=64, zero=3, global_batch=64)
    one, eight = (steps_of(Recipe(sharding_replicas=n), sizes=sizes) for n in (1, 8))
    for name in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        assert getattr(eight.memory, name) == pytest.approx(8 * getattr(one.memory, name))
    # without overlap: gathers and scatters at 450 GB/s inside a node, and two ring passes of the
    # shards of 4 bytes over eight nodes at the 50 GB/s of a NIC
    slow = replace(resolve_training_engine("ideal"), gradient_overlap=False)
    sizes = layouts(dp=64, zero=1, global_batch=64)
    exposed_s = steps_of(Recipe(sharding_replicas=8), sizes=sizes, engine=slow, tier="bound")
    held = exposed_s.stages.dense_CS.sum()
    inside_s = 7 / 8 * held * (2 + 4) / 450e9
    across_s = 2 * 7 / 8 * held * 4 / 8 / 50e9
    found_s = exposed_s.waterfall["exposed_dp"][0]
    assert found_s == pytest.approx(inside_s + across_s, rel=0.05)


def test_attention_stays_inside_packed_documents() -> None:
    sizes = layouts(sequence_length=8192)
    whole, packed = (steps_of(Recipe(packed_length=n), sizes=sizes) for n in (0, 1024))
    # causal attention 6 L a d (s + 1) FLOP per token
    difference = 6 * LAYERS * H * (8193 - 1025) * 16 * 8192
    assert whole.model_flop_C[0] - packed.model_flop_C[0] == pytest.approx(difference, rel=1e-9)


def test_a_recipe_keeps_the_waterfall_and_the_memory_of_deepseek() -> None:
    # arXiv 2412.19437 on 2,048 H800: it fits with the recomputation of its section 3.2.3
    sizes = layouts(
        pp=16, dp=128, ep=64, sequence_length=4096, global_batch=15360, recompute=[1, 0]
    )
    steps = training_steps(
        question(
            sizes, model=DEEPSEEK, system="h800_sxm", engine="hai_llm", schedule="dualpipe",
            formats=replace(question(sizes).formats, gemm="fp8_block", moe="fp8_block"),
        )
    )  # fmt: skip
    assert steps.memory.fits.tolist() == [True, False]
    parts = np.stack(list(steps.waterfall.values()))
    assert parts.sum(axis=0) == pytest.approx(steps.step_s_C, rel=1e-12)
    assert resolve_model(DEEPSEEK).network.mtp_layers == 1


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(lora_rank=16),
        Recipe(mtp_depth=1, activation_offload=0.7),
        Recipe(recompute_modules=("layernorm", "mlp"), sharding_replicas=2),
        Recipe(optimizer_offload=0.5, offload_bandwidth=50e9, moment_format="bf16"),
        Recipe(first_stage_layers=4, last_stage_layers=2),
    ],
)
def test_bounds_of_a_search_hold_with_recipes(recipe: Recipe) -> None:
    sizes = layouts(
        tp=[1, 2, 1, 4], pp=[4, 4, 8, 4], dp=[4, 2, 2, 2], zero=[0, 1, 2, 3],
        recompute=[0, 1, 2, 1], global_batch=32,
    )  # fmt: skip
    for optimizer in ("adamw", "muon"):
        asked = question(sizes, engine="megatron", recipe=recipe, optimizer=optimizer)
        costs = micro_batch_costs(asked)
        bounds, steps = lower_bounds(asked, costs), training_steps(asked, costs)
        assert np.all(bounds.step_s_C <= steps.step_s_C * (1 + 1e-12))
        assert np.all(bounds.memory_bytes_C <= steps.memory.total_bytes * (1 + 1e-12))
        parts = np.stack(list(steps.waterfall.values()))
        assert parts.sum(axis=0) == pytest.approx(steps.step_s_C, rel=1e-12)
        assert np.all(parts >= -1e-12)
