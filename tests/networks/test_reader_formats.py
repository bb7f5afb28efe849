from __future__ import annotations

from typing import Any

import pytest

from perfatlas.formats import formats
from perfatlas.networks import CheckpointFormats
from perfatlas.networks.hf_config import read_config
from perfatlas.networks.hf_config.module_patterns import as_globs, covered_parts

DENSE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "vocab_size": 32000,
}
SPARSE: dict[str, Any] = DENSE | {
    "model_type": "deepseek_v3",
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 512,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
}


def checkpoint(model: dict[str, Any], quantization: dict[str, Any]) -> CheckpointFormats:
    return read_config(model | {"quantization_config": quantization}, "test").checkpoint


def group(kind: str, bits: int, *, dynamic: bool = False, **weights: object) -> dict[str, Any]:
    return {
        "targets": ["Linear"],
        "weights": {"type": kind, "num_bits": bits, **weights},
        "input_activations": {"type": kind, "num_bits": bits, "dynamic": dynamic},
    }


def tensors(row: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": row}, **more}


WEIGHTS_ONLY = {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4}}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_static"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8_dynamic"),
        ({"quant_method": "fbgemm_fp8"}, "fp8_dynamic"),
        ({"quant_method": "awq", "bits": 4}, "int4_wo"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
        (tensors(group("float", 8)), "fp8_static"),
        (tensors(group("float", 8, dynamic=True)), "fp8_dynamic"),
        (tensors(group("float", 8, strategy="block")), "fp8_block"),
        (tensors(group("float", 4, group_size=16)), "nvfp4"),
        (tensors(group("float", 4, group_size=32)), "mxfp4"),
        (tensors(group("int", 8)), "int8"),
        (tensors(WEIGHTS_ONLY), "int4_wo"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_static"),
        ({"quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
    ],
)
def test_every_scheme_names_a_known_format(quantization: dict[str, Any], expected: str) -> None:
    found = checkpoint(DENSE, quantization)
    assert found.gemm_format == expected
    assert found.moe_format is None
    assert expected in formats()
    assert "quantization_config" in found.source


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kv_cache_quant_algo": "FP8"}, "fp8_static"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, "fp8_static"),
        ({"kv_cache_scheme": "FP8"}, "fp8_static"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_quant_algo": None}, None),
    ],
)
def test_cache_format(fields: dict[str, Any], expected: str | None) -> None:
    found = checkpoint(DENSE, {"quant_method": "modelopt", "quant_algo": "FP8"} | fields)
    assert found.kv_format == expected


def test_gpt_oss_mxfp4_touches_the_experts_only() -> None:
    model = DENSE | {"model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 2}
    found = checkpoint(
        model | {"num_key_value_heads": 8},
        {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        },
    )
    assert (found.gemm_format, found.moe_format) == ("bf16", "mxfp4")
    assert not found.attention_quantized


def test_kimi_k25_patterns_leave_all_but_the_experts() -> None:
    ignore = ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|down)_proj.*"]
    found = checkpoint(SPARSE, tensors(WEIGHTS_ONLY, ignore=ignore))
    assert (found.gemm_format, found.moe_format) == ("bf16", "int4_wo")


def test_nvfp4_with_plain_attention_keeps_the_other_linears() -> None:
    exclude = [f"model.layers.{i}.self_attn.q_b_proj" for i in range(4)]
    quantization = {
        "quant_algo": "NVFP4",
        "exclude_modules": [*exclude, "lm_head", "model.layers.4*"],
    }
    found = checkpoint(SPARSE, quantization)
    assert (found.gemm_format, found.moe_format) == ("nvfp4", "nvfp4")
    assert not found.attention_quantized


def test_a_few_layers_left_out_do_not_change_the_format() -> None:
    found = checkpoint(
        DENSE,
        {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0", "lm_head"]},
    )
    assert found.gemm_format == "fp8_dynamic"
    assert found.attention_quantized


def test_mixed_precision_is_taken_per_part_and_noted() -> None:
    layers = {
        "model.layers.0.mlp.experts.7.down_proj": {"quant_algo": "NVFP4"},
        "model.layers.*.mlp.experts.*.down_proj": {"quant_algo": "NVFP4"},
        "model.layers.*.self_attn.q_proj": {"quant_algo": "FP8"},
        "model.layers.*.mlp.down_proj": {"quant_algo": "W4A16_AWQ"},
    }
    architecture = read_config(
        SPARSE
        | {"quantization_config": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}},
        "test",
    )
    assert architecture.checkpoint.moe_format == "nvfp4"
    assert architecture.checkpoint.gemm_format == "fp8_static"
    assert any("mix" in note for note in architecture.notes)
    assert any("not quantized" in note and "shared" in note for note in architecture.notes)


def test_unknown_method_is_noted_not_guessed() -> None:
    architecture = read_config(DENSE | {"quantization_config": {"quant_method": "magic"}}, "test")
    assert architecture.checkpoint.gemm_format is None
    assert "not supported" in architecture.notes[-1]


def test_no_quantization_states_nothing() -> None:
    assert read_config(DENSE, "test").checkpoint == CheckpointFormats()


def test_regular_expressions_are_never_run() -> None:
    assert as_globs("re:(a+)+$") is None
    assert as_globs("re:(a|b)(c|d)") == ("ac", "ad", "bc", "bd")
    assert as_globs("re:" + "(a|b)" * 20) is None
    assert as_globs("x" * 10_000) is None
    covered, unknown = covered_parts(["re:(a+)+$"], {"attention": 2}, depth=2)
    assert (covered, unknown) == (frozenset(), ("re:(a+)+$",))


def test_modules_outside_the_language_model_do_not_count() -> None:
    sizes = {"attention": 2, "dense": 2}
    patterns = ["mtp.layers.0*", "mtp*", "model.visual*", "model.layers.2*", "vision_tower*"]
    assert covered_parts(patterns, sizes, depth=2)[0] == frozenset()
    assert covered_parts(["model.layers.0", "model.layers.1"], sizes, depth=2)[0] == sizes.keys()
