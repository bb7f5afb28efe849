"""The keys under which configs of transformers hold the same dimension.

Source: the configuration classes of transformers 5.24.0, and configs published with code of their
    own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping

# Name used here -> other spellings, the most used first
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size", "dim_ff", "dff", "block_ff_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": (
        "num_kv_heads",
        "n_kv_heads",
        "n_head_kv",
        "kv_n_heads",
        "num_attention_groups",
    ),
    "head_dim": ("kv_channels", "attention_head_dim", "dim_head"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "seq_length", "max_seq_len", "model_max_length"),
    "hidden_act": ("activation_function", "hidden_activation", "afn"),
    "sliding_window": ("sliding_window_size", "local_attention", "attention_window_size"),
    "sliding_window_pattern": ("_sliding_window_pattern", "global_attn_every_n_layers"),
    "layer_types": ("layers_block_type", "block_types", "attention_layers", "attn_type_list"),
    "full_attention_layers": ("attn_layer_indices", "full_attn_idxs"),
    "qkv_bias": ("add_qkv_bias", "attention_bias", "use_bias", "use_qkv_bias", "bias"),
    "output_bias": ("attention_out_bias", "attention_bias", "use_bias", "bias"),
    "mlp_bias": ("use_mlp_bias", "use_bias", "bias"),
    "use_qk_norm": ("qk_norm", "qk_layernorm", "qk_layer_norm", "use_qk_layernorm"),
    "num_experts": (
        *("num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"),
    ),
    "num_experts_per_tok": (
        *("num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k"),
        "top_k_experts",
    ),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
    "num_shared_experts": ("n_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_expert_intermediate_size": (
        *("shared_intermediate_size", "shared_experts_intermediate_size", "share_expert_dim"),
        "moe_shared_expert_intermediate_size",
    ),
    "moe_latent_size": ("routed_expert_hidden_size",),
    "router_bias": ("use_routing_bias", "use_moe_router_bias", "moe_router_enable_expert_bias"),
    "first_k_dense_replace": ("num_dense_layers", "moe_layer_start_index"),
    "moe_layer_freq": ("moe_layer_interval", "interleave_moe_layer_step"),
    "mtp_layers": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"),
    "mamba_n_heads": ("mamba_num_heads",),
    "mamba_d_head": ("mamba_head_dim",),
    "mamba_d_state": ("ssm_state_size", "state_size"),
    "mamba_n_groups": ("n_groups", "mamba_ngroups"),
    "mamba_d_conv": ("conv_kernel",),
    "mamba_expand": ("expand",),
    "mamba_dt_rank": ("time_step_rank",),
    "mamba_conv_bias": ("use_conv_bias",),
    "mamba_proj_bias": ("use_bias",),
    "conv_kernel_size": ("conv_L_cache",),
}
_BY_SPELLING: Final[Mapping[str, list[tuple[str, int]]]] = {
    key: [(name, keys.index(key)) for name, keys in KEYS.items() if key in keys]
    for key in {key for keys in KEYS.values() for key in keys}
}
# Objects whose keys count like those of the config itself
NESTED: Final = ("attn_config", "ffn_config")
# Keys that may list a value for each layer
PER_LAYER: Final = (
    *("intermediate_size", "moe_intermediate_size", "num_experts", "num_experts_per_tok"),
    *("num_shared_experts", "num_key_value_heads"),
)
# Keys that count only if the config class of the model_type knows them
FEATURES: Final = (
    *("num_experts", "moe_intermediate_size", "num_shared_experts", "use_qk_norm", "kv_lora_rank"),
    *("shared_expert_intermediate_size", "linear_num_key_heads", "mamba_n_heads", "mamba_dt_rank"),
    "sliding_window",
)
# Keys that only the rules of layers read
RULES: Final = frozenset(
    (
        *("use_sliding_window", "max_window_layers", "full_attention_interval", "mlp_layer_types"),
        *("mlp_only_layers", "decoder_sparse_step", "moe_layer_end_index", "multi_query"),
        *("attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset"),
        *("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
        *("qk_head_dim", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
        *("linear_value_head_dim", "linear_conv_kernel_dim", "attn_output_gate", "mamba_d_ssm"),
        *("lm_head_bias", "cross_attention_layers", "mamba_chunk_size", "chunk_size"),
        *("no_rope_layers", "num_mtp_modules"),
        *("no_rope_layer_interval", "use_mtp", "mtp_transformer_layers", "max_sequence_length"),
        *("hidden_size_per_layer_input", "vocab_size_per_layer_input", "num_kv_shared_layers"),
        *("altup_num_inputs", "laurel_rank", "lru_width", "conv1d_width", "attention_hidden_size"),
        *("prompt_types", "prompt_length", "segment_types", "position_bias_num_buckets"),
        *("ffn_round_up_to_multiple_of", "linear_num_heads", "linear_head_dim"),
        *("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier"),
    )
)
# Keys of a config class whose defaults matter
CLASS_KEYS: Final = frozenset(
    (
        *KEYS,
        *_BY_SPELLING,
        *RULES,
        *("tie_word_embeddings", "index_topk", "index_n_heads", "index_head_dim"),
        *("embedding_size", "type_vocab_size", "dim", "hidden_dim", "num_heads", "window_size"),
        *("attention_heads", "intermediate_multiple_size", "expansion_ratio"),
    )
) - {"hidden_act", *KEYS["hidden_act"]}
# Words of keys that change neither the dimensions of a network nor its operators
NEUTRAL: Final = frozenset(
    (
        *("act", "activation", "alibi", "aux", "bos", "chunk", "clip", "cls", "coef"),
        *("compression", "dropout", "dropouts", "dtype", "eos", "eps", "epsilon", "finetuning"),
        *("fp32", "gradient", "group", "implementation", "init", "initializer", "jitter", "labels"),
        *("logit", "logits", "loss", "multiplier", "original", "output", "pad", "pdrop"),
        *("problem", "quantization", "return", "rope", "rotary", "scale", "scaled", "scaling"),
        *("scoring", "sep", "softcap", "softcapping", "std", "summary", "task", "temperature"),
        *("theta", "tie", "token", "tokens", "topk", "torch", "tp", "transformers", "unsloth"),
        "version",
    )
)
# Keys that state the number formats of a checkpoint
FORMATS: Final = ("quantization_config", "compression_config", "quantization")
META_MODEL: Final = "meta_model"  # What the class of transformers builds, as `meta_model` writes it
# Keys that are read elsewhere, or say nothing of the network
ELSEWHERE: Final = frozenset(
    (
        *("model_type", "architectures", "auto_map", "use_cache", "_name_or_path", "name_or_path"),
        *("id2label", "label2id", "hidden_act", "vision_config", "audio_config", "text_config"),
        META_MODEL,
    )
)


def canonical(fields: Fields, names: Mapping[str, str]) -> Fields:
    """Return the fields under the names used here.

    Args:
        names: Name used here by a key of the family that means something else elsewhere.
    """
    values: dict[str, object] = {}
    for name in NESTED:
        nested = fields.child(name)
        values |= nested.values if nested else {}
    values |= fields.values
    renamed = {names[key]: key for key in names if key in values}
    values |= {name: values.pop(key) for name, key in renamed.items()}
    found: dict[str, tuple[bool, int, str]] = {}
    for key, value in values.items():
        for name, rank in _BY_SPELLING.get(key, ()):
            candidate = (value is None, rank, key)
            if name not in values and (name not in found or candidate < found[name]):
                found[name] = candidate
    spelled = {name: key for name, (_, _, key) in found.items()}
    values |= {name: values[key] for name, key in spelled.items()}
    for name in PER_LAYER:
        listed = values.get(name)
        if isinstance(listed, list) and listed and all(one == listed[0] for one in listed):
            values[name] = listed[0]
    return Fields(values=values, origin=fields.origin, spellings=spelled | renamed)


def unread(fields: Fields) -> tuple[str, ...]:
    """Return the keys of a config that its reader does not know and that may change the network."""
    known = {*CLASS_KEYS, *NESTED, *KEYS["hidden_act"], *ELSEWHERE}
    return tuple(
        sorted(
            name
            for name, value in fields.values.items()
            if name not in known
            and value not in (None, False, 0, "", [], {})
            and NEUTRAL.isdisjoint(name.lower().split("_"))
        )
    )
