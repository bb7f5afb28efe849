from __future__ import annotations

from dataclasses import replace

import numpy as np

from perfatlas import networks
from perfatlas.operators import FloatArray
from perfatlas.parallelism import PlanColumns

BF16 = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")


def column(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)


def plan_of(**sizes: float) -> PlanColumns:
    """Return one plan; sizes left out are 1, and the experts are divided over tp x attention_dp."""
    one = PlanColumns(
        tp=column(1), pp=column(1), cp=column(1), attention_dp=column(1), ep=column(1),
        moe_tp=column(1), dp=column(1), ring_degree=column(1), guidance_degree=column(1),
        dcp=column(1),
    )  # fmt: skip
    return replace(one, **{name: column(value) for name, value in sizes.items()})


def model_of(
    mixer: networks.Mixer, ffn: networks.Ffn, *, layers: int = 4, hidden: int = 512
) -> networks.Architecture:
    return networks.Architecture(
        model_type="llama",
        hidden_size=hidden,
        vocab_size=1024,
        tie_word_embeddings=False,
        layers=(networks.LayerGroup(count=layers, mixer=mixer, ffn=ffn),),
    )


LLAMA_70B = networks.Architecture(
    model_type="llama",
    hidden_size=8192,
    vocab_size=128256,
    tie_word_embeddings=False,
    layers=(
        networks.LayerGroup(
            count=80,
            mixer=networks.GqaAttention(
                num_heads=64, num_kv_heads=8, head_dim=128, value_head_dim=128
            ),
            ffn=networks.DenseFfn(intermediate_size=28672),
        ),
    ),
)

_DEEPSEEK_MIXER = networks.MlaAttention(
    num_heads=128, q_lora_rank=1536, kv_lora_rank=512, nope_dim=128, rope_dim=64, value_head_dim=128
)
DEEPSEEK_V3 = networks.Architecture(
    model_type="deepseek_v3",
    hidden_size=7168,
    vocab_size=129280,
    tie_word_embeddings=False,
    layers=(
        networks.LayerGroup(
            count=3, mixer=_DEEPSEEK_MIXER, ffn=networks.DenseFfn(intermediate_size=18432)
        ),
        networks.LayerGroup(
            count=58,
            mixer=_DEEPSEEK_MIXER,
            ffn=networks.MoeFfn(
                num_experts=256,
                top_k=8,
                intermediate_size=2048,
                shared_intermediate_size=2048,
                router_bias=True,
            ),
        ),
    ),
)

SMALL_DENSE = model_of(
    networks.GqaAttention(num_heads=16, num_kv_heads=4, head_dim=64, value_head_dim=64),
    networks.DenseFfn(intermediate_size=2048),
)
SMALL_MOE = model_of(
    networks.GqaAttention(num_heads=16, num_kv_heads=4, head_dim=64, value_head_dim=64),
    networks.MoeFfn(num_experts=16, top_k=2, intermediate_size=256),
)
