"""Memory of training: the equations of Korthikanti et al., ZeRO and stages.

s tokens, b sequences, h hidden, a heads, t tensor-parallel ranks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfatlas.networks import resolve_model
from perfatlas.training.layouts import Layouts, stage_layers
from perfatlas.training.profiles import resolve_training_engine
from perfatlas.training.step import checkpoint_bytes, training_steps
from tests.training.asked import gpt, layouts, question

S, B, H, A = 2048.0, 2.0, 6144.0, 64.0
PAPER = replace(resolve_training_engine("ideal"), dropout=True, fused_attention=False)


def saved_per_layer(sizes: Layouts) -> float:
    steps = training_steps(question(sizes, model=gpt(48, int(H), int(A)), engine=PAPER))
    level = int(sizes.recompute[0])
    return float(steps.costs.saved_bytes_LUG[level, 0, 1])


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_activations_of_a_layer_are_those_of_the_paper(tp: int, *, sequence_parallel: bool) -> None:
    # arXiv 2205.05198, equations 1, 2 and 4
    sizes = layouts(tp=tp, sequence_length=S, micro_batch=B, sequence_parallel=sequence_parallel)
    scores = 5 * A * S / (H * tp)
    whole = S * B * H
    expected = whole * (34 / tp + scores if sequence_parallel else 10 + 24 / tp + scores)
    assert saved_per_layer(sizes) == pytest.approx(expected, rel=1e-12)


def test_recomputation_of_a_layer_is_that_of_the_paper() -> None:
    # selective: equation 6, 34 s b h / t; full: the input of the layer, 2 s b h / t
    sizes = layouts(tp=8, sequence_length=S, micro_batch=B)
    for level, each in ((1, 34.0), (2, 2.0)):
        kept = saved_per_layer(replace(sizes, recompute=np.array([level])))
        assert kept == pytest.approx(each * S * B * H / 8, rel=1e-12)


def test_a_layer_of_llama_keeps_34_bytes_per_token_and_hidden() -> None:
    # 8h + 4ad + 4kd + 6f + 4a with h 4096, ad 4096, kd 1024, f 14336, a 32
    steps = training_steps(question(layouts(sequence_length=8192)))
    each = 8 * 4096 + 4 * 4096 + 4 * 1024 + 6 * 14336 + 4 * 32
    assert steps.costs.saved_bytes_LUG[0, 0, 1] == pytest.approx(8192 * each, rel=1e-12)


@pytest.mark.parametrize(
    ("modules", "width"),
    [
        # input, queries and keys and values, output of attention, gate and up projection
        (("core_attn",), 4096 + 6144 + 4096 + 2 * 14336),
        (("core_attn", "mlp"), 4096 + 6144 + 4096),
        # the input of the output projection, and the statistics of the softmax in 4 bytes
        (("mlp",), 4096 + 6144 + 4096 + 4096 + 2 * 32),
    ],
)
@pytest.mark.parametrize("tp", [1, 4])
def test_maxtext_keeps_named_projections(modules: tuple[str, ...], width: int, tp: int) -> None:
    engine = replace(resolve_training_engine("maxtext"), recompute_modules=modules)
    sizes = replace(layouts(tp=tp, sequence_length=8192), recompute=np.array([1]))
    steps = training_steps(question(sizes, engine=engine))
    kept = steps.costs.saved_bytes_LUG[1, 0, 1]
    assert kept == pytest.approx(2.0 * 8192 * width / tp, rel=1e-12)


def test_planned_memory_holds_two_products_and_frees_the_logits() -> None:
    # the layer that is computed again without its input, less the logits, which are larger
    engine = resolve_training_engine("maxtext")
    sizes = replace(layouts(dp=8, zero=3, global_batch=8), recompute=np.array([2]))
    steps = training_steps(question(sizes, engine=engine))
    memory = steps.memory
    gathered = 2 * 4096 * 14336 * (2.0 + 4.0)
    assert memory.other_bytes[0] == pytest.approx(gathered + engine.context_bytes, rel=1e-12)
    kept = float(steps.costs.saved_bytes_LUG[2, 0] @ [1.0, 32.0, 1.0])
    assert memory.activations_bytes[0] == pytest.approx(kept, rel=1e-12)
    logits = float(sizes.tokens[0]) * 128256 * 4.0
    unknown = logits + memory.other_bytes[0]
    assert memory.least_bytes[0] == pytest.approx(memory.total_bytes[0] - unknown, rel=1e-12)


def test_model_states_are_those_of_zero() -> None:
    # 2 bytes of weights, 4 of gradients, 12 of states; each divided by 8 ranks from its stage on
    memory = training_steps(question(layouts(dp=8, zero=[0, 1, 2, 3], global_batch=8))).memory
    psi = 8_030_261_248
    states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    expected = [18 * psi, (6 + 12 / 8) * psi, (2 + 16 / 8) * psi, 18 * psi / 8]
    assert states == pytest.approx(np.array(expected), rel=1e-9)


def test_fsdp2_keeps_fp32_weights_and_three_copies_of_the_logits() -> None:
    # torchtitan, Llama-3-8B, 8 ranks: 4 + 4 + 8 bytes per parameter. Per token and layer it keeps
    # the input, queries, values, attention outputs, the gate and softmax statistics; the loss
    # keeps one fp32 tensor of 128,256 logits and has two more at its peak
    sizes = layouts(dp=8, zero=3, global_batch=16, micro_batch=2, sequence_length=8192, recompute=1)
    steps = training_steps(question(sizes, engine="torchtitan@2024.12"))
    memory, psi, tokens = steps.memory, 8_030_261_248, 2 * 8192
    states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert states == pytest.approx(16 * psi / 8, rel=1e-9)
    layer = 2 * (4096 + 4096 + 1024 + 4096 + 14336) + 4 * 32
    assert steps.costs.saved_bytes_LUG[1, 0, 1] == pytest.approx(tokens * layer, rel=1e-12)
    # beside the logits, ids of 8 bytes and inputs of the head and of its norm
    ends = tokens * (8 + 2 * 4096 + 2 * 4096)
    kept = tokens * (32 * layer + 3 * 4 * 128_256) + ends
    assert memory.activations_bytes == pytest.approx(kept, rel=1e-3)
    # a compiled loss leaves 16-bit logits and their gradient: the bytes of one fp32 tensor
    compiled = training_steps(question(sizes, engine="torchtitan@2025.06")).memory
    freed = memory.activations_bytes - compiled.activations_bytes
    assert freed == pytest.approx(tokens * 2 * 4 * 128_256, rel=1e-9)


def test_pipelines_of_fsdp2_hold_gradients_of_all_layers_unsharded() -> None:
    # reduced once per step: 2 bytes of weights and 4 of gradients for every parameter of a rank
    sizes = layouts(pp=2, dp=[1, 4], zero=3, global_batch=16)
    engine = replace(resolve_training_engine("torchtitan"), reserved_memory=1.0, context_bytes=0.0)
    steps = training_steps(question(sizes, engine=engine))
    held = (steps.stages.over_ranks(steps.stages.dense_CS))[[0, 1], steps.memory.rank]
    assert steps.memory.other_bytes == pytest.approx(np.array([0.0, 6.0 * held[1]]), rel=1e-9)


def test_automodel_updates_16_bit_weights() -> None:
    # 2 bytes of weights, 2 of gradients and 2 of each moment, divided by 8 ranks
    engine = resolve_training_engine("automodel")
    sizes = layouts(dp=8, zero=3, global_batch=8)
    asked = question(sizes, engine=engine, gradient_format=engine.gradient_format)
    memory, psi = training_steps(asked).memory, 8_030_261_248
    assert memory.weights_bytes == pytest.approx(2 * psi / 8, rel=1e-9)
    states = memory.weights_bytes + memory.gradients_bytes + memory.optimizer_bytes
    assert states == pytest.approx(8 * psi / 8, rel=1e-9)
    assert checkpoint_bytes(asked) == pytest.approx(6 * psi, rel=1e-9)


def test_fsdp2_gathers_no_experts_that_expert_parallelism_divides() -> None:
    # expert data parallelism of 1 gathers dense layers alone, of 2 also their experts
    engine = replace(resolve_training_engine("torchtitan"), reserved_memory=1.0, context_bytes=0.0)
    sizes = layouts(dp=8, ep=[8, 4], zero=3, global_batch=8)
    steps = training_steps(question(sizes, model="Qwen/Qwen3-30B-A3B", engine=engine))
    stages, ends = steps.stages, 2 * 151_936 * 2048
    layer = stages.layer_dense_C + np.array([0.0, 1.0]) * stages.layer_expert_C
    # of two layers 2 bytes of weights and 4 of gradients, of the embedding and the head 2
    expected = 2 * layer * 6 + 2 * ends
    assert steps.memory.other_bytes == pytest.approx(expected, rel=1e-9)


def test_the_first_rank_of_1f1b_holds_as_many_micro_batches_as_stages() -> None:
    sizes = layouts(pp=4, global_batch=[16, 2], recompute=0)
    steps = training_steps(question(sizes))
    layer = float(steps.costs.saved_bytes_LUG[0, 0, 1])
    embedding = float(steps.costs.saved_bytes_LUG[0, 0, 0])
    expected = [4 * (8 * layer + embedding), 2 * (8 * layer + embedding)]
    assert steps.memory.rank.tolist() == [0, 0]
    assert steps.memory.activations_bytes == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("layers", "pp", "vpp"), [(126, 16, 1), (61, 4, 4), (80, 8, 5), (5, 4, 1)])
def test_stages_hold_all_layers(layers: int, pp: int, vpp: int) -> None:
    held = stage_layers(layers, layouts(pp=pp, vpp=vpp))[0]
    assert held.sum() == layers
    assert held.max() - held.min() <= 1
    assert held[0] == held.min()


def test_experts_are_divided_over_their_ranks() -> None:
    sizes = layouts(dp=8, ep=[1, 2, 8], zero=0, global_batch=8)
    steps = training_steps(question(sizes, model="Qwen/Qwen3-30B-A3B"))
    experts = steps.stages.expert_CS.sum(axis=1)
    # 48 layers of 128 experts with three matrices of 2048 x 768
    assert experts == pytest.approx(48 * 128 * 3 * 2048 * 768 / sizes.ep, rel=1e-12)
    whole = resolve_model("Qwen/Qwen3-30B-A3B").network.parameters().total
    dense = steps.stages.dense_CS.sum(axis=1)
    assert dense[0] + experts[0] == pytest.approx(whole, rel=1e-6)
    assert dense[0] == pytest.approx(dense[2], rel=1e-6)
