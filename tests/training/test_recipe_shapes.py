"""Recipes together: what adapters, recomputation, Muon and multi-token prediction keep and run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfatlas.operators import Streaming
from perfatlas.training.recipe import Recipe
from perfatlas.training.step import training_steps
from perfatlas.training.step.optimizer import newton_schulz
from perfatlas.verbs.train import train
from tests.training.asked import layouts, question
from tests.training.test_recipes import DEEPSEEK, LAYERS, LLAMA, VOCAB, WIDTH, F, H, steps_of


def test_checkpoints_of_adapters_do_not_depend_on_the_layout() -> None:
    fields = {"model": LLAMA, "system": "h100_sxm", "gpus": 8, "global_batch": 64, "lora_rank": 16}
    each = (H + WIDTH) + (H + H) + (H + 2 * F) + (F + H)
    for sizes in ({}, {"tp": 4}, {"pp": 2, "cp": 2}):
        found = train(**fields, **sizes).results["checkpoint_bytes"]
        assert found == pytest.approx(14 * LAYERS * 16 * each, rel=1e-12)


def test_recomputed_modules_drop_inputs_of_adapters_but_frozen_experts_keep_their_own() -> None:
    def kept(modules: str, model: str = DEEPSEEK, segment: int = 2) -> float:
        recipe = Recipe(lora_rank=16, recompute_modules=tuple(modules.split(",")))
        steps = steps_of(recipe, sizes=layouts(recompute=1), model=model, engine="megatron")
        return float(steps.costs.saved_bytes_LUG[1, 0, segment]) / 4096  # per token

    core = kept("core_attn")
    # what the activation of 8 experts of 2048 reads, the input of the shared one's down projection
    # and its activation, and those of the second products of its two adapters
    experts = 2 * 8 * 2 * 2048
    assert core - kept("core_attn,moe") == pytest.approx(experts + 2 * 3 * 2048 + 2 * 2 * 16)
    # frozen experts keep no input of their down projection
    assert kept("core_attn,moe_act") == core
    # adapters of the fused latent projection and of the shared expert read outputs of norms
    assert core - kept("core_attn,layernorm") == pytest.approx(2 * 2 * 7168)
    # gate and up, the input of the down projection, and those of the second products
    dropped = kept("core_attn", LLAMA, 1) - kept("core_attn,mlp", LLAMA, 1)
    assert dropped == pytest.approx(2 * 3 * F + 2 * 2 * 16)


def test_queries_and_latent_keys_of_short_models_keep_one_input() -> None:
    # DeepSeek-V2-Lite: two norms of 2048, latents of 512 twice, queries and keys of 192 and values
    # of 128 for 16 heads with the output of 2048, statistics, and the dense layer of 10944
    steps = steps_of(Recipe(), model="deepseek-ai/DeepSeek-V2-Lite", sizes=layouts())
    attention = 16 * (192 + 192 + 128) + 2048
    kept = 2 * (2 * 2048 + 2 * 2048 + 2 * 512 + attention + 3 * 10944) + 4 * 16
    assert steps.costs.saved_bytes_LUG[0, 0, 1] == pytest.approx(4096 * kept, rel=1e-12)


def test_frozen_products_quantize_once() -> None:
    formats = replace(question(layouts()).formats, gemm="fp8_dynamic")
    whole, frozen = (
        {
            (row.operator.name, row.part): float(row.operator.write_bytes[0])
            for row in steps_of(recipe, formats=formats).costs.rows
            if isinstance(row.operator, Streaming) and row.operator.name.endswith("_quantize")
        }
        for recipe in (Recipe(), Recipe(lora_rank=16))
    )
    assert frozen.keys() == whole.keys()
    assert all(whole[key] == 2 * frozen[key] for key in whole)


def test_muon_multiplies_the_matrices_of_multi_token_prediction() -> None:
    sizes = layouts(zero=0, pp=[1, 2])
    plain, deep = (
        question(sizes, tier="bound", optimizer="muon", recipe=Recipe(mtp_depth=depth))
        for depth in (0, 2)
    )
    before, after = (
        newton_schulz(asked, steps.costs, steps.stages).time_s
        for asked in (plain, deep)
        for steps in (training_steps(asked),)
    )
    joining = 4 * H * H * 2 * H + 2 * H**3
    more = joining * 5 / plain.devices().peak_flop_per_s("bf16")[0]
    assert after[0] - before[0] == pytest.approx(2 * (before[0] / 32 + more), rel=0.02)
    # the last of two ranks has 16 layers and those of multi-token prediction
    assert after[1] - before[1] == pytest.approx(after[0] - before[0], rel=1e-9)


def test_multi_token_prediction_needs_the_embedding_beside_the_head() -> None:
    # Megatron-LM, GPTModel: ranks with such layers hold the embedding; one rank holds both ends of
    # DualPipe (arXiv 2412.19437, section 3.2.3)
    sizes = layouts(pp=4)
    for schedule, copies in (("1f1b", 1), ("zb_h1", 1), ("dualpipe", 0)):
        plain, deep = (
            steps_of(Recipe(mtp_depth=depth), sizes=sizes, schedule=schedule).stages
            for depth in (0, 1)
        )
        last = deep.dense_CS[0, -1] - plain.dense_CS[0, -1]
        layer = H * WIDTH + H * H + 3 * H * F + 2 * H * H
        assert last == pytest.approx(layer + copies * VOCAB * H, rel=1e-4)
        assert deep.ends_CS[0, -1] == pytest.approx((1 + copies) * VOCAB * H)
