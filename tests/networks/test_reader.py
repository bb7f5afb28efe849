from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from perfatlas import networks
from perfatlas.networks.hf_config import families as families_package, read_config
from perfatlas.networks.hf_config.families import families
from perfatlas.networks.hf_config.families.registry import PACKAGE
from perfatlas.quantities import InvalidSpecError, UnsupportedError

GQA: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
MOE: dict[str, Any] = {
    "num_experts": 8,
    "num_local_experts": 8,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 768,
    "intermediate_size_mlp": 2048,
    "moe_shared_expert_intermediate_size": 640,
}
MLA: dict[str, Any] = {
    "q_lora_rank": 256,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
}


def config(model_type: str, **fields: object) -> dict[str, Any]:
    return {"model_type": model_type, **GQA, **fields}


def read(model_type: str, **fields: object) -> networks.Architecture:
    return read_config(config(model_type, **fields), "test")


def attentions(architecture: networks.Architecture) -> list[tuple[int, networks.GqaAttention]]:
    return [
        (g.count, g.mixer)
        for g in architecture.layers
        if isinstance(g.mixer, networks.GqaAttention)
    ]


def test_llama_by_hand() -> None:
    architecture = read("llama", attention_bias=True)
    (group,) = architecture.layers
    assert (group.count, group.norms) == (6, 2)
    # head_dim = 1024 / 16
    assert group.mixer == networks.GqaAttention(
        num_heads=16,
        num_kv_heads=4,
        head_dim=64,
        value_head_dim=64,
        qkv_bias=True,
        output_bias=True,
    )
    assert group.ffn == networks.DenseFfn(intermediate_size=4096)
    assert not architecture.tie_word_embeddings


def test_every_family_file_is_found_by_the_types_it_names() -> None:
    names = {path.stem for path in Path(families_package.__path__[0]).glob("*.py")}
    stated = [
        (model_type, name)
        for name in names - {"__init__", "registry"}
        for model_type in importlib.import_module(f"{PACKAGE}.{name}").MODEL_TYPES
    ]
    assert dict(stated) == families()
    assert len(stated) == len(families()), "two files read one model_type"


@pytest.mark.parametrize(
    ("model_type", "kv_heads"),
    [("llama", 16), ("mistral", 8), ("mixtral", 8), ("qwen3_moe", 4), ("qwen3_next", 2)],
)
def test_absent_kv_heads_mean_what_the_config_class_supplies(
    model_type: str, kv_heads: int
) -> None:
    fields = config(model_type, **MOE)
    del fields["num_key_value_heads"]
    ((_, attention),) = attentions(read_config(fields, "test"))
    assert attention.num_kv_heads == kv_heads
    ((_, attention),) = attentions(read(model_type, **MOE, num_key_value_heads=None))
    assert attention.num_kv_heads == 16


@pytest.mark.parametrize(
    ("model_type", "head_dim"),
    [("llama", 64), ("qwen3", 128), ("qwen3_next", 256), ("gemma2", 256), ("gpt_oss", 64)],
)
def test_absent_head_dim(model_type: str, head_dim: int) -> None:
    assert {a.head_dim for _, a in attentions(read(model_type, **MOE))} == {head_dim}


@pytest.mark.parametrize(
    ("model_type", "tied"), [("gemma2", True), ("gemma3", True), ("phi3", False)]
)
def test_absent_tie_word_embeddings(model_type: str, *, tied: bool) -> None:
    assert read(model_type).tie_word_embeddings is tied


def test_mistral_window_absent_null_and_stated() -> None:
    windows = [
        attentions(read("mistral", **fields))[0][1].window
        for fields in ({}, {"sliding_window": None}, {"sliding_window": 1024})
    ]
    assert windows == [4096, 0, 1024]


@pytest.mark.parametrize(
    ("model_type", "fields", "windows"),
    [
        # even layers windowed: 3 and 3
        ("gemma2", {"sliding_window": 512}, {512: 3, 0: 3}),
        # every 6th layer full: 5 and 1
        ("gemma3_text", {"sliding_window": 512}, {512: 5, 0: 1}),
        ("gemma3_text", {"sliding_window": 512, "sliding_window_pattern": 2}, {512: 3, 0: 3}),
        ("gpt_oss", {}, {128: 3, 0: 3}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 256, "max_window_layers": 4},
         {0: 4, 256: 2}),
        ("qwen2", {"use_sliding_window": False, "sliding_window": 256}, {0: 6}),
        # layers 3 (index) only of 6 has no rotary embedding
        ("llama4", {"attention_chunk_size": 2048}, {2048: 5, 0: 1}),
        (
            "gemma2",
            {"sliding_window": 64, "layer_types": ["full_attention"] * 5 + ["sliding_attention"]},
            {0: 5, 64: 1},
        ),
    ],
)  # fmt: skip
def test_interleaved_windows(
    model_type: str, fields: dict[str, Any], windows: dict[int, int]
) -> None:
    found = {a.window: count for count, a in attentions(read(model_type, **MOE, **fields))}
    assert found == windows


def test_gpt_oss_has_sinks_and_biases_everywhere() -> None:
    architecture = read("gpt_oss", **MOE)
    for group in architecture.layers:
        assert isinstance(group.mixer, networks.GqaAttention)
        assert (group.mixer.sinks, group.mixer.qkv_bias, group.mixer.output_bias) == (True,) * 3
        assert group.ffn == networks.MoeFfn(
            num_experts=8, top_k=2, intermediate_size=4096, bias=True, router_bias=True
        )


def test_deepseek_v3_by_hand() -> None:
    architecture = read("deepseek_v3", **MOE, **MLA, n_shared_experts=2, first_k_dense_replace=1)
    dense, sparse = architecture.layers
    attention = networks.MlaAttention(
        num_heads=16, q_lora_rank=256, kv_lora_rank=128, nope_dim=64, rope_dim=32, value_head_dim=64
    )
    assert (dense.count, dense.mixer, dense.ffn) == (
        1,
        attention,
        networks.DenseFfn(intermediate_size=4096),
    )
    assert sparse.count == 5
    assert sparse.ffn == networks.MoeFfn(
        num_experts=8,
        top_k=2,
        intermediate_size=512,
        shared_intermediate_size=1024,  # two shared experts of 512
        router_bias=True,
    )
    assert architecture.mtp_layers == 1


def test_deepseek_variants() -> None:
    lite = read("deepseek_v2", **MOE, **(MLA | {"q_lora_rank": None}), first_k_dense_replace=1)
    mixer = lite.layers[0].mixer
    assert isinstance(mixer, networks.MlaAttention)
    assert mixer.q_lora_rank == 0
    assert lite.mtp_layers == 0
    every_other = read(
        "deepseek_v3",
        **MOE,
        **MLA,
        first_k_dense_replace=1,
        moe_layer_freq=2,
        n_shared_experts=None,
    )
    # layers 2 and 4 of 0..5 have experts
    assert [(g.count, type(g.ffn)) for g in every_other.layers] == [
        (4, networks.DenseFfn),
        (2, networks.MoeFfn),
    ]
    sparse = read("glm_moe_dsa", **MOE, **MLA, index_topk=1024).layers[0].mixer
    assert isinstance(sparse, networks.MlaAttention)
    assert sparse.indexer == networks.SparseIndexer(num_heads=32, head_dim=128, top_k=1024)
    assert read("kimi_k2", **MOE, **MLA).mtp_layers == 0


def test_moe_layer_rules_of_qwen_and_llama4() -> None:
    qwen = read("qwen3_moe", **MOE, decoder_sparse_step=2, mlp_only_layers=[1])
    # experts where (i + 1) % 2 == 0: layers 1, 3, 5; layer 1 is dense by mlp_only_layers
    assert {type(g.ffn): g.count for g in qwen.layers} == {networks.DenseFfn: 4, networks.MoeFfn: 2}
    all_sparse = config("qwen3_moe", **MOE)
    del all_sparse["intermediate_size"]
    assert read_config(all_sparse, "test").num_layers == 6
    llama4 = read("llama4_text", **MOE, interleave_moe_layer_step=2)
    widths = {
        g.ffn.intermediate_size for g in llama4.layers if isinstance(g.ffn, networks.DenseFfn)
    }
    assert widths == {2048}
    assert {
        g.ffn.shared_intermediate_size for g in llama4.layers if isinstance(g.ffn, networks.MoeFfn)
    } == {4096}


@pytest.mark.parametrize("model_type", ["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"])
def test_gated_delta_hybrids(model_type: str) -> None:
    architecture = read(model_type, **MOE, num_hidden_layers=8, linear_num_value_heads=32)
    counts = {type(g.mixer): g.count for g in architecture.layers}
    assert counts == {networks.GatedDeltaNet: 6, networks.GqaAttention: 2}
    assert all(a.output_gate and a.qk_norm == "head" for _, a in attentions(architecture))
    sparse = model_type != "qwen3_5_text"
    assert all(isinstance(g.ffn, networks.MoeFfn) is sparse for g in architecture.layers)


def test_nemotron_h_pattern_by_hand() -> None:
    architecture = read("nemotron_h", **MOE, hybrid_override_pattern="M-M*ME", num_hidden_layers=6)
    found = [(g.count, type(g.mixer), type(g.ffn), g.norms) for g in architecture.layers]
    none = type(None)
    assert found == [
        (3, networks.Mamba2, none, 1),
        (1, none, networks.DenseFfn, 1),
        (1, networks.GqaAttention, none, 1),
        (1, none, networks.MoeFfn, 1),
    ]
    assert not any(g.ffn.gated for g in architecture.layers if g.ffn is not None)


def test_jamba_by_hand() -> None:
    architecture = read("jamba", **MOE, num_hidden_layers=16)
    # attention at 4 and 12, experts at odd layers
    counts: dict[tuple[type, type], int] = {
        (type(g.mixer), type(g.ffn)): g.count for g in architecture.layers
    }
    assert counts == {
        (networks.Mamba1, networks.DenseFfn): 6,
        (networks.Mamba1, networks.MoeFfn): 8,
        (networks.GqaAttention, networks.DenseFfn): 2,
    }
    mamba = architecture.layers[0].mixer
    assert isinstance(mamba, networks.Mamba1)
    assert (mamba.intermediate_size, mamba.time_step_rank) == (2048, 64)


def test_glm4_and_minimax_norms() -> None:
    glm = read("glm4_moe", **MOE, attention_bias=True, use_qk_norm=True)
    assert all(
        (a.qkv_bias, a.output_bias, a.qk_norm) == (True, False, "head") for _, a in attentions(glm)
    )
    minimax = read("minimax_m2", **MOE, use_mtp=True, num_mtp_modules=3)
    assert attentions(minimax)[0][1].qk_norm == "full"
    assert minimax.mtp_layers == 3


@pytest.mark.parametrize(
    ("wrapper", "inner"),
    [
        ("gemma3", "gemma3_text"),
        ("llama4", "llama4_text"),
        ("mistral3", "mistral"),
        ("qwen3_vl", "qwen3_vl_text"),
        ("qwen3_5_moe", "qwen3_5_moe_text"),
        ("kimi_k25", "kimi_k2"),
        ("llava", "llama"),
    ],
)
def test_multimodal_wrappers_read_the_text_part_with_a_warning(wrapper: str, inner: str) -> None:
    text = config(inner, **MOE, **MLA)
    wrapped = read_config({"model_type": wrapper, "text_config": text}, "test")
    assert wrapped.layers == read_config(text, "test").layers
    assert "multimodal" in wrapped.warnings[0]
    tied = read_config(
        {"model_type": wrapper, "tie_word_embeddings": True, "text_config": text}, "test"
    )
    assert tied.tie_word_embeddings


def test_flat_multimodal_configs_have_a_warning() -> None:
    assert "multimodal" in read("qwen2_5_vl", vision_config={}).warnings[0]


def test_auto_map_is_ignored_and_noted() -> None:
    plain = read("llama")
    mapped = read("llama", auto_map={"AutoConfig": "evil.Config"}, architectures=["os.system"])
    assert mapped.layers == plain.layers
    assert "auto_map" in mapped.notes[0]


def test_a_family_that_no_row_names_is_read_by_its_fields_with_a_warning() -> None:
    found = read("brand_new", attention_bias=True, n_dense_prefix=3, rope_theta=1e4)
    assert found.layers == read("llama", attention_bias=True).layers
    (warning,) = found.warnings
    assert "'brand_new'" in warning
    assert "n_dense_prefix" in warning
    assert "rope" not in warning
    with pytest.raises(UnsupportedError, match="operators that are not modeled: experts"):
        read("jetmoe")  # its class in transformers has other layers


def test_sizes_that_a_config_leaves_out_are_those_of_its_class() -> None:
    found = read_config({"model_type": "llama", "vocab_size": 32064}, "test")
    assert found.parameters().total == 6_738_939_904  # LLaMA 7B with 64 more rows, twice
    assert "hidden_size = 4096" in found.warnings[0]


def test_a_config_without_model_type_is_read_by_its_class_or_as_params_json() -> None:
    named = {key: value for key, value in config("").items() if key != "model_type"}
    found = read_config({**named, "architectures": ["Qwen3MoeForCausalLM"]}, "test")
    assert found.model_type == "qwen3_moe"
    own = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32}
    mistral = read_config({**own, "n_kv_heads": 8, "vocab_size": 32000}, "test")
    assert mistral.parameters().total == 7_241_732_096
    with pytest.raises(InvalidSpecError, match="model_type"):
        read_config(named, "test")


def test_lightning_attention_and_short_convolutions_by_hand() -> None:
    lightning = read("minimax_text_01", **MOE, attn_type_list=[0, 0, 1] * 2, head_dim=64)
    mixers = {type(group.mixer): group.count for group in lightning.layers}
    assert mixers == {networks.LightningAttention: 4, networks.GqaAttention: 2}
    # 16 heads with a state of 64 x 64 in 16 bits, whatever the number of tokens
    state = {layout.constant_bytes for layout in lightning.cache_layouts(2.0)}
    assert state == {0.0, 16 * 64 * 64 * 2.0}
    convolved = read("lfm2", layer_types=["conv", "conv", "full_attention"] * 2)
    short = next(g.mixer for g in convolved.layers if g.count == 4)
    assert short == networks.ShortConvolution(width=1024, conv_kernel=3)
    # two earlier tokens of 1,024 channels in 16 bits
    assert {layout.constant_bytes for layout in convolved.cache_layouts(2.0)} == {0.0, 4096.0}


def test_repeated_values_of_layers_are_one_and_others_are_refused() -> None:
    same = read(
        "hunyuan_v1_moe", **(MOE | {"moe_topk": [2] * 6, "moe_intermediate_size": [512] * 6})
    )
    assert same.layers == read("hunyuan_v1_moe", **MOE).layers
    with pytest.raises(InvalidSpecError, match="intermediate_size"):
        read("hunyuan_v1_moe", **(MOE | {"moe_intermediate_size": [512] * 5 + [256]}))
