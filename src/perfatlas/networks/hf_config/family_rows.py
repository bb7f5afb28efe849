"""Families of decoders, one row each: what a config of their model_type does not state.

Source: the model classes of transformers 5.24.0; tests/networks/oracle counts their parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config.decoder import Family, mlstm, rg_lru, wkv

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: Final = Family()
_BIASED: Final = {"qkv_bias": True, "output_bias": True, "mlp_bias": True}
_QKV: Final = {"qkv_bias": True, "output_bias": False}
_QKV_AS_STATED: Final = {"output_bias": False}
_NORMED: Final = {"use_qk_norm": True}
_CORRECTED: Final = {"router_bias": True}  # A score correction for each expert
_GPT: Final = Family(
    fixed=_BIASED, gated=False, ffn_multiple=4, norm_bias=True, padding_positions=0
)
_DEEPSEEK: Final = Family(fixed=_CORRECTED)
_HYBRID: Final = Family(
    defaults={"full_attention_interval": 4, "attn_output_gate": True}, fixed=_NORMED
)
_HYBRID_SHARED: Final = Family(defaults=_HYBRID.defaults, fixed=_NORMED, shared_gate=True)
_GEMMA3: Final = Family(defaults={"sliding_window_pattern": 6}, fixed=_NORMED, norms=4)
_KOSMOS: Final = {
    "embed_dim": "hidden_size",
    "layers": "num_hidden_layers",
    "attention_heads": "num_attention_heads",
}
_MAMBA2_NAMES: Final = {
    "num_heads": "mamba_n_heads",
    "head_dim": "mamba_d_head",
    "intermediate_size": "mamba_d_ssm",
}

FAMILIES: Final[Mapping[str, Family]] = {
    **dict.fromkeys(
        (
            *("llama", "granite", "granitemoe", "granitemoeshared", "helium", "ernie4_5", "gemma"),
            *("internlm2", "internlm3", "iquestcoder", "exaone", "minicpm3", "youtu", "phi3"),
            *("mixtral", "ministral3", "mistral", "mistral3", "ministral", "seed_oss", "smollm3"),
            *("emu3_text_model", "granite_docling_text", "mistral4", "paddleocr_vl_text"),
            "phi4_multimodal",
            *("aria_text", "baichuan", "cwm", "deepseek_v2", "granitemoehybrid", "xverse"),
            *("deepseek", "aquila", "solar", "Yi"),
        ),
        _PLAIN,
    ),
    **dict.fromkeys(
        (
            *("deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe_lite", "ernie4_5_moe", "solar_open"),
            "sarvam_mla",
        ),
        _DEEPSEEK,
    ),
    # Qwen
    **dict.fromkeys(
        (
            *("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
            "qwen2_5_omni_text",
        ),
        Family(fixed=_QKV),
    ),
    "qwen2_moe": Family(
        defaults={"qkv_bias": True}, fixed=_QKV_AS_STATED, shared_gate=True, below_windows=True
    ),
    **dict.fromkeys(
        (
            *("qwen3", "qwen3_vl", "qwen3_vl_text", "qwen3_moe", "qwen3_vl_moe"),
            *("qwen3_vl_moe_text", "exaone4", "hy_v3", "mellum", "exaone_moe"),
            *("lara_mini", "qwen3_omni_moe_text", "molmo2_text"),
        ),
        Family(fixed=_NORMED),
    ),
    "dots1": Family(fixed=_NORMED | _CORRECTED),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text"), _HYBRID),
    **dict.fromkeys(("qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"), _HYBRID_SHARED),
    "mimo": Family(defaults={"qkv_bias": True}, fixed=_QKV_AS_STATED),
    "qwen": Family(fixed=_QKV, joined_width=True),
    # Gemma
    "gemma2": Family(defaults={"sliding_window_pattern": 2}, norms=4),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA3),
    "gemma3n_text": Family(
        fixed=_NORMED,
        norms=4,
        unpriced={
            "AltUp": (
                "2 * (altup_num_inputs - 1) * hidden_size ** 2 + num_hidden_layers"
                " * (hidden_size * (altup_num_inputs + 2)"
                " + altup_num_inputs ** 2 * (1 + altup_num_inputs))"
            ),
            "LAuReL": "num_hidden_layers * hidden_size * (2 * laurel_rank + 1)",
        },
    ),
    "vaultgemma": Family(defaults={"sliding_window_pattern": 2}),
    # GPT
    **dict.fromkeys(("gpt2", "gpt_bigcode", "openai-gpt"), _GPT),
    "ctrl": Family(fixed=_BIASED | {"lm_head_bias": True}, gated=False, norm_bias=True),
    "gpt_neox_japanese": Family(gated=False, ffn_multiple=4, norm_bias=True),
    "gpt_neo": Family(
        fixed={"qkv_bias": False, "output_bias": True, "mlp_bias": True},
        names={"window_size": "sliding_window", "num_heads": "num_attention_heads"},
        gated=False,
        ffn_multiple=4,
        norm_bias=True,
        padding_positions=0,
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        Family(
            fixed={"mlp_bias": True, "lm_head_bias": True},
            gated=False,
            ffn_multiple=4,
            norms=1,
            norm_bias=True,
        ),
    ),
    "gpt_neox": Family(
        defaults={"qkv_bias": True, "output_bias": True},
        fixed={"mlp_bias": True},
        gated=False,
        norm_bias=True,
    ),
    "gpt_oss": Family(
        defaults={"sliding_window_pattern": 2},
        fixed={"router_bias": True},
        gated=True,
        sinks=True,
        expert_bias=True,
    ),
    "bloom": Family(
        fixed=_BIASED, gated=False, ffn_multiple=4, norm_bias=True, embedding_norm=True
    ),
    "opt": Family(
        defaults=_BIASED,
        names={"enable_bias": "qkv_bias"},
        only={
            "word_embed_proj_dim": "hidden_size",
            "do_layer_norm_before": True,
            "_remove_final_layer_norm": False,
            "layer_norm_elementwise_affine": True,
        },
        gated=False,
        norm_bias=True,
        padding_positions=2,
    ),
    "mpt": Family(
        only={"no_bias": True, "attn_type": "multihead_attention", "qk_ln": False, "alibi": True},
        gated=False,
        ffn_multiple=4,
    ),
    "phi": Family(
        fixed=_BIASED | {"lm_head_bias": True},
        only={"qk_layernorm": False},
        gated=False,
        norms=1,
        norm_bias=True,
    ),
    "phimoe": Family(norm_bias=True),
    "persimmon": Family(fixed=_BIASED, gated=False, norm_bias=True),
    "starcoder2": Family(gated=False, norm_bias=True),
    "stablelm": Family(fixed=_QKV_AS_STATED, norm_bias=True),
    "biogpt": Family(fixed=_BIASED, gated=False, norm_bias=True, padding_positions=2),
    "xglm": Family(
        fixed=_BIASED, names={"attention_heads": "num_attention_heads"}, gated=False, norm_bias=True
    ),
    # Others
    "dbrx": Family(defaults={"num_experts": None}),
    "hunyuan_v1_dense": Family(fixed=_NORMED),
    "hunyuan_v1_moe": Family(
        defaults={"num_shared_experts": None, "moe_intermediate_size": None}, fixed=_NORMED
    ),
    "afmoe": Family(fixed=_NORMED | _CORRECTED | {"attn_output_gate": True}, norms=4),
    **dict.fromkeys(("apertus", "apertus1p5_text"), Family(fixed=_NORMED, gated=False)),
    "axk1": Family(unpriced={"norms behind experts": "mlp_layer_types.sparse * hidden_size"}),
    "beam": Family(fixed=_NORMED | {"attn_output_gate": True}, norms=4),
    "bitnet": Family(
        gated=True,
        unpriced={
            "norms inside layers": "num_hidden_layers * (hidden_size + intermediate_size)",
        },
    ),
    "cpmant": Family(
        fixed={"tie_word_embeddings": False},
        unpriced={
            "prompts, segments and buckets of positions": (
                "(prompt_types * prompt_length + segment_types) * hidden_size + num_attention_heads"
                " * (position_bias_num_buckets + segment_types ** 2)"
            )
        },
    ),
    "cosmos3_edge_text": Family(gated=False),
    "diffllama": Family(
        warnings=("differential attention is priced as attention of as many heads",)
    ),
    "doge": Family(
        fixed=_NORMED | {"num_experts": 0},
        only={"is_moe": False},
        unpriced={
            "masks by value states and scales of residuals": (
                "num_hidden_layers"
                " * ((num_key_value_heads + 2) * hidden_size + num_key_value_heads)"
            )
        },
    ),
    "ernie4_5_vl_moe_text": Family(
        fixed=_CORRECTED,
        computed={
            "moe_intermediate_size": "moe_intermediate_size.at0",
            "image_expert_width": "moe_intermediate_size.at1",
        },
        unpriced={
            "experts of images": (
                "mlp_layer_types.sparse * num_experts"
                " * (3 * hidden_size * image_expert_width + hidden_size + 1)"
            )
        },
    ),
    "falcon_h1": Family(parallel=True),
    "kosmos_2_text_model": Family(
        fixed=_BIASED,
        names=_KOSMOS,
        gated=False,
        norm_bias=True,
        unpriced={
            "norms inside layers": "2 * num_hidden_layers * (hidden_size + intermediate_size)"
        },
    ),
    "kosmos_2_5_text_model": Family(
        fixed=_BIASED,
        names=_KOSMOS,
        gated=False,
        norm_bias=True,
        unpriced={"norms inside layers": "2 * num_hidden_layers * intermediate_size"},
    ),
    "modernbert-decoder": Family(
        gated=True,
        embedding_norm=True,
        fixed={"lm_head_bias": True},
        unpriced={"product in front of the head": "hidden_size * (hidden_size + 1)"},
    ),
    "unlimited_ocr_text": Family(
        fixed={"layer_types": None, "sliding_window": None},
        warnings=("sliding attention with reference tokens is priced as full attention",),
    ),
    "voxtral_realtime_text": Family(
        unpriced={"adaptive norms": "64 * num_hidden_layers * hidden_size"}
    ),
    "arcee": Family(gated=False),
    "nemotron": Family(gated=False, norm_bias=True),
    "jais2": Family(gated=False, norm_bias=True),
    "cohere": Family(norms=1),
    "cohere2": Family(defaults={"sliding_window_pattern": 4}, norms=1),
    "cohere2_moe": Family(norms=1),
    "flint": Family(fixed=_NORMED, sinks=True),
    "glm": Family(fixed=_QKV_AS_STATED),
    **dict.fromkeys(("glm4", "glm4v_text"), Family(fixed=_QKV_AS_STATED, norms=4)),
    "glm_ocr_text": Family(norms=4),
    **dict.fromkeys(
        ("glm4_moe", "glm4v_moe", "glm4v_moe_text"), Family(fixed=_QKV_AS_STATED | _CORRECTED)
    ),
    **dict.fromkeys(("granite_swa", "granitemoe_swa"), Family(sinks=True)),
    "hyperclovax": Family(norms=4),
    "jamba": Family(inner_norms=True),
    "kolibri1": Family(fixed=_NORMED, norms=4),
    "laguna": Family(fixed=_NORMED | _CORRECTED | {"attn_output_gate": True}, gate_per_head=True),
    "minimax_m2": Family(defaults={"use_qk_norm": True, "router_bias": True}, qk_norm="full"),
    **dict.fromkeys(
        ("minimax", "minimax_text_01", "minimax_m1"),
        Family(lightning=True),
    ),
    "lfm2": Family(fixed=_NORMED, only={"block_ffn_dim_multiplier": 1.0}),
    "lfm2_moe": Family(fixed=_NORMED | _CORRECTED),
    "lfm3": Family(fixed=_NORMED | {"attn_output_gate": True}, norms=4, gate_per_head=True),
    "mllama_text_model": Family(
        notes=("layers that attend to images run for prompts with images alone, not modeled",)
    ),
    "nanochat": Family(fixed=_NORMED, gated=False, learned_norm=False, qk_norm_weight=False),
    "minicpm": Family(defaults={"tie_word_embeddings": True}),
    "olmo": Family(learned_norm=False),
    "orion": Family(norm_bias=True),
    **dict.fromkeys(("olmo2", "olmoe", "flex_olmo"), Family(fixed=_NORMED, qk_norm="full")),
    "olmo3": Family(defaults={"sliding_window_pattern": 4}, fixed=_NORMED, qk_norm="full"),
    "olmo_hybrid": Family(defaults={"full_attention_interval": 4}, fixed=_NORMED, qk_norm="full"),
    "sarvam_moe": Family(fixed=_CORRECTED),
    "recurrent_gemma": Family(
        fixed={"qkv_bias": False, "mlp_bias": True}, joined_width=True, mixers=rg_lru
    ),
    "rwkv": Family(
        gated=False,
        ffn_multiple=4,
        norm_bias=True,
        embedding_norm=True,
        mixers=wkv,
    ),
    "xlstm": Family(
        defaults={"qk_dim_factor": 0.5, "v_dim_factor": 1.0, "ffn_proj_factor": 2.667},
        computed={
            "intermediate_size": (
                "ceil(ffn_proj_factor * hidden_size / ffn_round_up_to_multiple_of)"
                " * ffn_round_up_to_multiple_of"
            )
        },
        mixers=mlstm,
    ),
    "mamba2": Family(names=_MAMBA2_NAMES),
    **dict.fromkeys(
        ("mamba", "falcon_mamba"),
        Family(defaults={"mamba_dt_rank": "auto"}, names={"intermediate_size": "mamba_d_ssm"}),
    ),
    "bamba": Family(defaults={"full_attention_layers": []}),
}
