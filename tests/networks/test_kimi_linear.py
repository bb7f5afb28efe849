"""Kimi-K3: Kimi delta attention, gated latent attention, experts of a latent width."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perfatlas import estimate
from perfatlas.networks import GatedDeltaNet, LayerGroup, MlaAttention, resolve_model
from perfatlas.networks.hf_config import read_config

SMALL: dict[str, Any] = {
    "model_type": "kimi_linear",
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "mla_use_output_gate": True,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 16,
    "routed_expert_hidden_size": 32,
    "first_k_dense_replace": 1,
    "linear_attn_config": {
        "kda_layers": [1],
        "full_attn_layers": [2],
        "num_heads": 4,
        "head_dim": 8,
        "short_conv_kernel_size": 4,
        "use_full_rank_gate": True,
    },
}


def small(linear: dict[str, Any]) -> dict[str, Any]:
    """Return the small model with other values of its linear attention."""
    return {**SMALL, "linear_attn_config": SMALL["linear_attn_config"] | linear}


def test_the_size_of_kimi_k3() -> None:
    architecture = resolve_model("moonshotai/Kimi-K3").network
    assert architecture.parameters().total == pytest.approx(2.8e12, rel=0.01)
    mixers: Counter[type] = Counter()
    for group in architecture.layers:
        assert isinstance(group, LayerGroup)
        mixers[type(group.mixer)] += group.count
    assert mixers == {GatedDeltaNet: 69, MlaAttention: 24}


def test_parameters_by_hand() -> None:
    delta = 5 * 64 * 32  # q, k, v, gate and output of 4 heads of 8
    delta += (64 + 32) * 8  # decay through 8
    delta += 64 * 4 + 3 * 32 * 4 + 4 + 32 + 8  # beta, convolutions, A_log, dt_bias, norm
    latent = 64 * 32 + 32 * 4 * 12 + 64 * 20 + 16 * 4 * 16  # q down and up, kv down and up
    latent += 2 * 4 * 8 * 64 + 32 + 16  # output and its gate, norms
    dense = 3 * 64 * 48
    experts = 8 * 3 * 32 * 16 + 3 * 64 * 16 + 2 * 64 * 32 + 8 * 65  # routed, shared, latent, router
    norms = 5 * 64
    total = read_config(SMALL, "small").parameters().total
    assert total == 2 * 100 * 64 + delta + latent + dense + experts + norms


def test_a_longer_context_costs_the_latent_layers_only() -> None:
    load: dict[str, Any] = {"system": "b200_sxm", "gpus": 16, "batch": 8, "osl": 64}
    short, long = (
        estimate(model="moonshotai/Kimi-K3", mode="static", isl=isl, **load).results["tpot_s"]
        for isl in (4096, 65536)
    )
    assert short < long < 2.0 * short
