from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import perfatlas
from perfatlas.formats import formats
from perfatlas.networks import (
    Architecture,
    CheckpointFormats,
    DenseFfn,
    GqaAttention,
    LayerGroup,
    ModelFormats,
    StepTokens,
    model_names,
    resolve_model,
)
from perfatlas.networks.hf_config import read_config, read_network
from perfatlas.networks.hf_config.module_patterns import (
    PATHS,
    as_globs,
    module_slots,
    templates_of,
)
from perfatlas.networks.layers import (
    GatedDeltaNet,
    GatedRecurrence,
    LightningAttention,
    Mixer,
    ShortConvolution,
    SparseIndexer,
)
from perfatlas.networks.phases import layer_operators
from perfatlas.operators import Gemm, GroupedGemm, Phase
from perfatlas.parallelism import PlanColumns, stage_weights_bytes
from perfatlas.quantities import InvalidSpecError, UnsupportedError

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


GQA = GqaAttention(num_heads=2, num_kv_heads=1, head_dim=8, value_head_dim=8)


def checkpoint(model: dict[str, Any], quantization: dict[str, Any]) -> CheckpointFormats:
    return read_config(model | {"quantization_config": quantization}, "test").checkpoint


def group(
    kind: str,
    bits: int,
    *,
    dynamic: bool = False,
    inputs: str | None = "",
    input_bits: int = 0,
    **weights: object,
) -> dict[str, Any]:
    row = {"type": inputs or kind, "num_bits": input_bits or bits, "dynamic": dynamic}
    return {
        "targets": ["Linear"],
        "weights": {"type": kind, "num_bits": bits, **weights},
        "input_activations": None if inputs is None else row,
    }


def hqq(bits: int) -> dict[str, Any]:
    row = {"weight_quant_params": {"nbits": bits, "group_size": 64}}
    return {"quant_method": "hqq", "quant_config": row, "skip_modules": ["lm_head"]}


def torchao(kind: str, **data: object) -> dict[str, Any]:
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_data": data}}}


def tensors(row: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": row}, **more}


def quark(
    weight: dict[str, Any] | list[dict[str, Any]], inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    row = {"weight": weight, "input_tensors": inputs}
    return {"quant_method": "quark", "global_quant_config": row}


FP4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
WEIGHTS_ONLY = {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4}}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_static"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8_dynamic"),
        ({"quant_method": "fbgemm_fp8"}, "fp8_dynamic"),
        ({"quant_method": "mxfp8"}, "mxfp8"),
        ({"quant_method": "nvfp4"}, "nvfp4"),
        ({"quant_method": "awq_marlin", "bits": 4}, "int4_wo"),
        ({"quant_method": "awq", "bits": 4}, "int4_wo"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
        (tensors(group("float", 8)), "fp8_static"),
        (tensors(group("float", 8, dynamic=True)), "fp8_dynamic"),
        (tensors(group("float", 8, strategy="block")), "fp8_block"),
        (tensors(group("float", 4, group_size=16)), "nvfp4"),
        (tensors(group("float", 4, group_size=32)), "mxfp4"),
        (tensors(group("int", 8)), "int8"),
        (tensors(WEIGHTS_ONLY), "int4_wo"),
        (tensors(group("float", 4, inputs=None, group_size=16)), "nvfp4_wo"),
        (tensors(group("float", 8, inputs=None)), "fp8_wo"),
        (tensors(group("int", 4, inputs="float", input_bits=8)), "int4_fp8"),
        (tensors(group("float", 4, input_bits=8, group_size=32)), "mxfp4_mxfp8"),
        ({"quant_method": "gptq", "bits": 2}, "int2_wo"),
        ({"quant_method": "gptq", "bits": 3}, "int3_wo"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4_wo"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        (hqq(4), "int4_wo"),
        (torchao("Int4WeightOnlyConfig"), "int4_wo"),
        (torchao("Float8DynamicActivationFloat8WeightConfig"), "fp8_dynamic"),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8_wo"),
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, "mxfp4_mxfp4"),
        ({"quant_method": "blockwise_int8"}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "int4_fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_static"),
        ({"quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
        (quark(FP4, FP4), "mxfp4_mxfp4"),
        (quark(FP4), "mxfp4"),
        (quark({"dtype": "fp8_e4m3"}, {"dtype": "fp8_e4m3"}), "fp8_static"),
        (quark({"dtype": "fp8_e4m3"}, {"dtype": "fp8_e4m3", "is_dynamic": True}), "fp8_dynamic"),
        (quark({"dtype": "int8"}, {"dtype": "int8"}), "int8"),
        (quark({"dtype": "uint4", "qscheme": "per_group", "group_size": 128}), "int4_wo"),
        (quark(FP4 | {"dtype": "fp6_e3m2"}, FP4 | {"dtype": "fp6_e3m2"}), "mxfp6_wo"),
        (quark([{"dtype": "fp8_e4m3"}, {"dtype": "int4"}], {"dtype": "fp8_e4m3"}), "int4_fp8"),
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
    exclude = [f"model.layers.{i}.self_attn.*" for i in range(4)]
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
        "model.layers.*.mlp.experts.*": {"quant_algo": "NVFP4"},
        "model.layers.*.self_attn": {"quant_algo": "FP8"},
        "model.layers.*.mlp.gate_proj": {"quant_algo": "W4A16_AWQ"},
        "model.layers.*.mlp.up_proj": {"quant_algo": "W4A16_AWQ"},
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


UNREAD: list[dict[str, Any]] = [
    {"quant_method": "magic"},
    {"quant_method": "gguf"},
    {"quant_method": "exl3", "bits": 4.0, "head_bits": 6},
    {"quant_method": "gptq", "bits": 5},
    hqq(1),
    torchao("IntxWeightOnlyConfig"),
    {"quant_method": "auto-round", "bits": 4, "extra_config": {"model.layers.0": {"bits": 6}}},
    {"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"},
    {"quant_method": "compressed-tensors"},
    tensors({"targets": ["Linear"], "weights": {"type": "int", "num_bits": 6}}),
    tensors(WEIGHTS_ONLY, sparsity_config={"format": "sparse-24-bitmask"}),
    tensors(group("int", 4)),
    {"quant_method": "modelopt", "quant_algo": "W2A16"},
    {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"lm_head": {"quant_algo": "W2"}}},
    quark({"dtype": "fp6_e3m2"}),  # not in groups of 32
    quark({"dtype": "fp4", "qscheme": "per_group", "group_size": 16}),
    quark(FP4) | {"layer_quant_config": {"*q_proj": {"weight": {"dtype": "fp6_e3m2"}}}},
    {"bits": 4, "group_size": 64},
    {"quant_method": "quark"},
    {"quant_method": "quark", "global_quant_config": None},
    {"quant_method": "modelopt"},
    {"quant_method": "modelopt", "quant_algo": None},
    {"quant_method": "compressed-tensors", "config_groups": {}},
    tensors({"targets": ["Linear"], "weights": None}),
    {"quant_algo": "MIXED_PRECISION", "quantized_layers": {}},
    {"quant_method": "fp8", "moe_quant_algo": "W2"},
    {"quant_method": "bitsandbytes", "load_in_8bit": False, "load_in_4bit": False},
    {"quant_method": "fp8", "modules_to_not_convert": ["re:^(?!.*experts).*"]},
    {
        "quant_method": "gptq",
        "dynamic": {f"+:.*x{i}.*": {"bits": 4 * (i % 2 + 1)} for i in range(3000)},
    },
    {"quant_method": "awq", "modules_to_not_convert": [f"x{i}y" for i in range(3000)]},
]


@pytest.mark.parametrize("quantization", UNREAD, ids=lambda row: str(row)[:300])
def test_what_is_not_read_is_refused_and_never_bf16(quantization: dict[str, Any]) -> None:
    architecture = read_config(DENSE | {"quantization_config": quantization}, "test")
    assert architecture.checkpoint.gemm_format is None
    assert "no known number format" in architecture.notes[-1]
    with pytest.raises(UnsupportedError, match="quantization_config"):
        architecture.checkpoint.refuse_unread("format")


@pytest.mark.parametrize("model_type", ["whisper", "t5", "bert"])
def test_formats_of_networks_without_names_of_modules_are_refused(model_type: str) -> None:
    stated = {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    config = {"model_type": model_type, "vocab_size": 1000}
    read_network(config, "test").checkpoint.refuse_unread("format")
    with pytest.raises(UnsupportedError, match=f"'gptq' is not read for.*{model_type}.*set format"):
        read_network(config | stated, "test").checkpoint.refuse_unread("format")


@pytest.mark.parametrize("cache", [{"kv_cache_quant_algo": "FP6"}, {"kv_cache_scheme": "FP2"}])
def test_an_unread_cache_is_refused_and_never_bf16(cache: dict[str, Any]) -> None:
    found = checkpoint(DENSE, {"quant_method": "modelopt", "quant_algo": "FP8"} | cache)
    found.refuse_unread("format")
    with pytest.raises(UnsupportedError, match="set kv_format"):
        found.refuse_unread("kv_format")


def test_every_model_of_the_catalog_states_formats_that_are_read() -> None:
    read = [(resolve_model(name).network.checkpoint, name) for name in model_names()]
    assert not [name for found, name in read if found.unread or found.unread_kv]


def test_quark_excludes_modules_and_states_its_cache() -> None:
    rows = {"*k_proj": {"weight": FP4, "output_tensors": {"dtype": "fp8_e4m3"}}}
    more = {"exclude": ["re:.*self_attn.*", "lm_head"], "layer_quant_config": rows}
    found = checkpoint(SPARSE, quark(FP4, FP4) | more | {"export": {"kv_cache_group": [*rows]}})
    assert (found.gemm_format, found.moe_format) == ("mxfp4_mxfp4", "mxfp4_mxfp4")
    assert (found.kv_format, found.attention_quantized) == ("fp8_static", False)


def test_modules_with_bits_of_their_own() -> None:
    own = {"extra_config": {"model.layers.*.mlp.experts.*": {"bits": 8}}}
    found = checkpoint(SPARSE, {"quant_method": "auto-round", "bits": 4} | own)
    assert (found.gemm_format, found.moe_format) == ("int4_wo", "int8_wo")
    left_out: dict[str, Any] = {
        "dynamic": {
            "-:.*self_attn.*": {},
            r"-:.*mlp\.(gate|up|down)_proj": {},
            "-:.*shared.*": {},
        }
    }
    found = checkpoint(SPARSE, {"quant_method": "gptq", "bits": 4} | left_out)
    assert (found.gemm_format, found.moe_format) == ("bf16", "int4_wo")


VERBS: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (perfatlas.estimate, {"system": "h100_sxm", "batch": 1}, "format"),
    (perfatlas.compare, {"systems": "h100_sxm,h200_sxm", "batch": 1}, "format"),
    (perfatlas.search, {"system": "h100_sxm", "gpus": 1, "isl": 100, "osl": 10}, "format"),
    (
        perfatlas.simulate,
        {"system": "h100_sxm", "isl": 100, "osl": 10, "concurrency": 1, "num_requests": 4},
        "format",
    ),
    (perfatlas.accuracy, {}, "gemm_format"),
]


@pytest.mark.parametrize(("verb", "fields", "field"), VERBS)
def test_verbs_refuse_unread_formats_until_one_is_set(
    verb: Callable[..., Any], fields: dict[str, Any], field: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(DENSE | {"quantization_config": {"quant_method": "gguf"}}))
    with pytest.raises(UnsupportedError, match=f"; set {field} to that of most tensors"):
        verb(model=str(config), **fields)
    found = verb(model=str(config), **fields, **{field: "q4_k"})
    assert "q4_k" in repr(getattr(found, "answer", found).scenario)


def test_no_quantization_states_nothing() -> None:
    assert read_config(DENSE, "test").checkpoint == CheckpointFormats()


def test_regular_expressions_are_never_run() -> None:
    assert as_globs("re:(a+)+$") is None
    assert as_globs("re:(a|b)(c|d)") == ("ac", "ad", "bc", "bd")
    assert as_globs("re:" + "(a|b)" * 20) is None
    assert as_globs("x" * 10_000) is None
    assert templates_of(["re:(a+)+$"]) == ({}, ("re:(a+)+$",))


def test_modules_outside_the_language_model_do_not_count() -> None:
    patterns = ["mtp.layers.0*", "mtp*", "model.visual*", "vision_tower*"]
    assert templates_of(patterns) == ({}, ())
    beyond = [*patterns, "model.layers.4*"]  # a layer of drafts
    found = checkpoint(SPARSE, tensors(WEIGHTS_ONLY, ignore=beyond))
    assert {module.format for module in found.modules} == {"int4_wo"}


def bits(found: CheckpointFormats, operator: str, inputs: int = 1024) -> float:
    return next(
        8 * module.bytes_per_element(inputs)
        for module in found.modules
        if module.operator == operator
    )


MIXED = {"quant_method": "gptq", "bits": 4, "group_size": 128}  # 4 + (16 + 4) / 128 = 4.15625 bits
EIGHT = 8 + (16 + 8) / 128  # the same with 8 bits


@pytest.mark.parametrize(
    ("quantization", "operator", "expected"),
    [
        (MIXED, "output_projection", 4.15625),
        (MIXED | {"group_size": -1}, "output_projection", 4 + 20 / 1024),  # a scale per row
        (
            MIXED | {"modules_to_not_convert": ["k_proj"]},
            "qkv_projection",
            2 * 4.15625 / 3 + 16 / 3,
        ),
        (
            MIXED | {"modules_to_not_convert": ["model.layers.0"]},
            "down_projection",
            3 * 4.15625 / 4 + 4,
        ),
        (
            MIXED | {"dynamic": {r"+:.*\.[1-2]\..*": {"bits": 8}}},
            "down_projection",
            (4.15625 + EIGHT) / 2,
        ),
        (
            MIXED | {"dynamic": {"-:.*down.*": {}, "+:.*": {"bits": 8}}},  # the first match counts
            "down_projection",
            16,
        ),
        (
            MIXED
            | {
                "quant_method": "auto-round",
                "extra_config": {"model.layers.3.mlp.down_proj": {"bits": 16}},
            },
            "down_projection",
            3 * 4.15625 / 4 + 4,
        ),
        (MIXED | {"modules_in_block_to_quantize": [["mlp.down_proj"]]}, "output_projection", 16),
        (MIXED | {"lm_head": True}, "lm_head", 4.15625),
        (hqq(3), "down_projection", 3.2 + 32 / 64),  # ten codes in 32 bits
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "down_projection", 4.5),
        (
            {
                "quant_method": "bitsandbytes",
                "load_in_4bit": True,
                "bnb_4bit_use_double_quant": True,
                "llm_int8_skip_modules": [
                    "lm_head",
                    "model.layers.0.mlp",
                    "model.layers.1.mlp.down_proj",
                ],
            },
            "down_projection",
            (4 + (8 + 32 / 256) / 64) / 2 + 8,
        ),
        (
            tensors(group("int", 4, inputs=None, group_size=32, symmetric=False)),
            "down_projection",
            4 + 20 / 32,
        ),
        (tensors(group("float", 8, strategy="channel")), "down_projection", 8 + 16 / 1024),
        (torchao("Int4WeightOnlyConfig", group_size=64), "down_projection", 4 + 32 / 64),
        (
            torchao(
                "ModuleFqnToConfig",
                module_fqn_to_config={
                    "_default": {"_type": "Int8WeightOnlyConfig", "_data": {}},
                    "re:.*mlp.*": None,
                },
            ),
            "gate_up_projection",
            16,
        ),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_channel"}), "down_projection", 8 + 32 / 1024),
        (
            quark(FP4, FP4) | {"layer_quant_config": {"*q_proj": {"weight": {"dtype": "int8"}}}},
            "qkv_projection",
            4.25 * 2 / 3 + 8 / 3,
        ),
        ({"quant_method": "fp8", "weight_block_size": [32, 32]}, "down_projection", 8 + 32 / 1024),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": {
                    "lm_head": {"quant_algo": "NVFP4"},
                    "model.layers.*.mlp.*": {"quant_algo": "FP8"},
                },
            },
            "lm_head",
            4.5,
        ),
    ],
)
def test_bits_of_weights_are_those_of_every_module(
    quantization: dict[str, Any], operator: str, expected: float
) -> None:
    assert bits(checkpoint(DENSE, quantization), operator) == pytest.approx(expected, rel=1e-12)


def test_modules_of_unknown_names_are_remarked() -> None:
    for name, remarked in (("attn.c_attn", True), ("mlp.gate", False), ("*self_attn*", False)):
        stated = MIXED | {"modules_to_not_convert": [f"model.layers.*.{name}"]}
        warned = read_config(DENSE | {"quantization_config": stated}, "test").warnings
        assert any("unknown names" in warning for warning in warned) == remarked


@pytest.mark.parametrize("pattern", ["re:.*attn.*", "re:.*attn", "*attn*"])
def test_wildcards_in_front_of_part_of_a_name(pattern: str) -> None:
    found = checkpoint(DENSE, tensors(WEIGHTS_ONLY, ignore=[pattern]))
    assert (bits(found, "qkv_projection"), bits(found, "down_projection")) == (16, 4.125)
    found = checkpoint(DENSE, tensors(WEIGHTS_ONLY, ignore=["*_proj"]))
    assert {module.format for module in found.modules} == {None}


def quantizable(model: Architecture) -> set[tuple[str, str]]:
    """Return operators whose format is that of quantized products, with classes of mixers."""
    one = np.ones(1)
    tokens = StepTokens(batch=one, q_len=one, kv_len=one)
    formats = ModelFormats(gemm="fp8_wo", moe="fp8_wo", kv="bf16", attention="bf16")
    return {
        (operator.name, type(group.mixer).__name__)
        for group in model.layers
        for operator in layer_operators(model, group, formats, Phase.PREFILL, tokens)
        if isinstance(operator, Gemm | GroupedGemm) and operator.format == "fp8_wo"
    }


def test_every_product_that_may_be_quantized_has_a_path() -> None:
    indexer = SparseIndexer(num_heads=2, head_dim=4, top_k=8)
    heads: dict[str, Any] = {"num_key_heads": 1, "key_head_dim": 4, "value_head_dim": 4}
    delta = GatedDeltaNet(num_value_heads=1, conv_kernel=2, **heads)
    own = (
        replace(GQA, indexer=indexer),
        replace(delta, decay_rank=2, gate_rank=2),
        GatedRecurrence(num_heads=2, value_dim=4, input_columns=32, gate_blocks=2),
        LightningAttention(num_heads=2, head_dim=4),
        ShortConvolution(width=8, conv_kernel=2),
    )
    dense = DenseFfn(intermediate_size=8)
    groups = [LayerGroup(count=1, mixer=mixer, ffn=dense) for mixer in own]
    made = Architecture(
        model_type="made", hidden_size=16, vocab_size=8, tie_word_embeddings=True,
        layers=tuple(groups), per_layer_width=4, per_layer_rows=8,
    )  # fmt: skip
    known = [resolve_model(name).network for name in model_names()]
    models = [made, *(model for model in known if isinstance(model, Architecture))]
    seen = set()
    for model in models:
        slots = {(slot.operator, slot.part) for slot in module_slots(model)}
        shared = {name for name, part in slots if part[0].islower()}  # parts of all mixers
        products = quantizable(model)
        assert not [one for one in products if one not in slots and one[0] not in shared]
        seen |= {mixer for _, mixer in products}
    assert {mixer.__name__ for mixer in get_args(Mixer)} <= PATHS.keys() & seen


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [
        (r"re:model\.layers\.[0-2]\.self_attn\.[qkv]_proj", 3),
        (r"re:.*layers\.(0|1[0-5]|(?:2|3))\..*attn.*", 3),
    ],
)
def test_classes_and_alternatives_of_regular_expressions(pattern: str, layers: int) -> None:
    found = checkpoint(DENSE, tensors(WEIGHTS_ONLY, ignore=[pattern]))
    assert bits(found, "qkv_projection") == (16 * layers + 4.125 * (4 - layers)) / 4


@pytest.mark.parametrize("key", ["dynamic", "extra_config"])
def test_names_of_gptq_and_auto_round_may_be_regular_expressions(key: str) -> None:
    stated: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "sym": True}
    found = checkpoint(DENSE, stated | {key: {r".*layers\.[01]\.mlp\.down_proj": {"bits": 16}}})
    assert bits(found, "down_projection") == (16 + bits(found, "qkv_projection")) / 2


def test_a_head_of_gptq_is_quantized_where_its_own_key_says_so() -> None:
    stated: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "dynamic": {"lm_head": {}}}
    for quantized in (False, True):
        found = checkpoint(DENSE, stated | {"lm_head": quantized})
        assert ("lm_head" in {module.operator for module in found.modules}) == quantized


def test_many_modules_of_few_schemes_are_read() -> None:
    rows = {
        f"model.layers.{i % 4}.mlp.experts.{i}.{name}_proj": {"bits": 8 if name == "down" else 4}
        for i in range(10_000)
        for name in ("up", "down")
    }
    found = checkpoint(SPARSE, {"quant_method": "auto-round", "bits": 4, "extra_config": rows})
    assert bits(found, "experts") > 5


@pytest.mark.parametrize("block", [[128], [128, 128, 1], [0, 1]])
def test_a_block_of_weights_has_two_sizes(block: list[int]) -> None:
    with pytest.raises(InvalidSpecError, match="two numbers"):
        checkpoint(DENSE, {"quant_method": "fp8", "weight_block_size": block})


def test_whole_layers_are_counted_where_the_part_is() -> None:
    ignored = {"ignore": ["model.layers.0*"]}  # dense: the other three have experts
    found = checkpoint(SPARSE, tensors(WEIGHTS_ONLY, **ignored))
    assert bits(found, "down_projection") == 16
    assert bits(found, "experts") == 4.125


def test_whole_layers_of_a_hybrid_are_those_that_have_the_part() -> None:
    hybrid = {"model_type": "qwen3_next", "num_hidden_layers": 8, "full_attention_interval": 4}
    ignored = {"ignore": [f"model.layers.{i}" for i in range(4)]}  # 3 of 6, and 1 of 2
    found = checkpoint(DENSE | hybrid, tensors(WEIGHTS_ONLY, **ignored))
    shares = {m.operator: {s.bits: round(w, 9) for w, s in m.parts} for m in found.modules}
    assert shares["qkvz_projection"] == shares["qkv_projection"] == {4.125: 0.5, 16: 0.5}


def test_groups_of_compressed_tensors_have_formats_of_their_own() -> None:
    rows = {
        "a": group("int", 4, inputs=None, group_size=128) | {"targets": ["re:.*mlp.*"]},
        "b": group("float", 8, dynamic=True, strategy="channel")
        | {"targets": ["re:.*self_attn.*"]},
    }
    found = checkpoint(DENSE, {"quant_method": "compressed-tensors", "config_groups": rows})
    assert {(m.operator, m.format) for m in found.modules} == {
        ("qkv_projection", "fp8_dynamic"),
        ("output_projection", "fp8_dynamic"),
        ("gate_up_projection", "int4_wo"),
        ("down_projection", "int4_wo"),
    }


LLAMA_7B = DENSE | {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
LLAMA_30B = DENSE | {
    "hidden_size": 6656,
    "intermediate_size": 17920,
    "num_hidden_layers": 60,
    "num_attention_heads": 52,
}


@pytest.mark.parametrize(
    ("model", "bits", "group_size", "published_gb"),
    # files of TheBloke's Llama-2-7B-32K-Instruct-GPTQ and Wizard-Vicuna-30B-Uncensored-GPTQ
    [
        (LLAMA_7B, 4, 32, 4.28),
        (LLAMA_7B, 4, 64, 4.02),
        (LLAMA_7B, 4, 128, 3.90),
        (LLAMA_7B, 8, -1, 7.01),
        (LLAMA_7B, 8, 128, 7.16),
        (LLAMA_30B, 3, -1, 12.92),
        (LLAMA_30B, 3, 128, 13.51),
        (LLAMA_30B, 4, -1, 16.94),
        (LLAMA_30B, 4, 32, 19.44),
        (LLAMA_30B, 8, 128, 33.73),
    ],
)
def test_weights_of_published_files(
    model: dict[str, Any], bits: int, group_size: int, published_gb: float, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    stated = {"quant_method": "gptq", "bits": bits, "group_size": group_size}
    config.write_text(json.dumps(model | {"quantization_config": stated}))
    answer = perfatlas.estimate(model=str(config), system="h100_sxm", batch=1, isl=16, osl=2)
    found = answer.to_dict()["results"]["memory"]["weights_bytes"]
    assert found / 1e9 == pytest.approx(published_gb, rel=0.003)


def test_weights_of_a_published_mixture() -> None:
    # simonwillison.net, 2025-11-06: "only 594GB on Hugging Face"; experts in groups of 32, 4.5 bits
    network = resolve_model("moonshotai/Kimi-K2-Thinking").network
    names = {"gemm": "bf16", "moe": "int4_wo", "kv": "bf16", "attention": "bf16"}
    formats = ModelFormats(**names, modules=network.checkpoint.modules)
    plan = PlanColumns(**{name.name: np.ones(1) for name in dataclasses.fields(PlanColumns)})
    assert stage_weights_bytes(network, formats, plan)[0] / 1e9 == pytest.approx(594, rel=0.001)


RUN: list[tuple[str, dict[str, Any], str]] = [
    ("mi355x", quark(FP4, FP4), "mxfp4_mxfp4"),
    ("mi300x", quark(FP4, FP4), "mxfp4"),  # vLLM converts weights
    ("b200_sxm", quark(FP4, FP4), "mxfp4"),  # the same: its kernels are those of AMD
    ("b200_sxm", {"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, "mxfp4_mxfp4"),
    ("h200_sxm", tensors(group("float", 4, group_size=16)), "nvfp4_wo"),
    ("b200_sxm", tensors(group("float", 4, group_size=16)), "nvfp4"),
    ("a100_sxm", {"quant_method": "fp8"}, "fp8_wo"),
    ("h100_sxm", {"quant_method": "fp8"}, "fp8_dynamic"),
]


@pytest.mark.parametrize(("system", "quantization", "expected"), RUN)
def test_products_are_what_the_engine_runs_on_the_gpu(
    system: str, quantization: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(DENSE | {"quantization_config": quantization}))
    answer = perfatlas.estimate(
        model=str(config), system=system, engine="vllm", batch=1, isl=16, osl=2
    )
    assert answer.scenario["gemm_format"] == expected


@pytest.mark.parametrize(
    ("engine", "quantization", "remedy"),
    [
        ("sglang", hqq(4), "set engine to vllm"),
        ("sglang", quark(FP4, FP4), "on GPUs of NVIDIA.*; set engine to vllm"),
        ("trtllm", quark({"dtype": "int8"}), "set engine to vllm or sglang"),
        ("vllm", {"quant_method": "w8a8_int8"}, "set engine to sglang"),
        *(
            ("trtllm", {"quant_method": method}, "set engine to vllm or sglang")
            for method in ("gptq", "awq", "auto-round", "fbgemm_fp8", "gptq_marlin")
        ),
    ],
)
def test_an_engine_that_does_not_load_a_method_is_refused(
    engine: str, quantization: dict[str, Any], remedy: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(DENSE | {"quantization_config": quantization}))
    fields: dict[str, Any] = {"system": "h100_sxm", "engine": engine, "batch": 1, "isl": 16}
    with pytest.raises(UnsupportedError, match=remedy):
        perfatlas.estimate(model=str(config), **fields, osl=2)
    answer = perfatlas.estimate(model=str(config), **fields, osl=2, format="int4_wo")
    assert answer.scenario["gemm_format"] == "int4_wo"
