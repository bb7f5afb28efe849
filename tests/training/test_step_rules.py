"""Each rule of training steps refuses its own example, with these words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.training_steps import read_training, rules

Fields = dict[str, Any]
GRAPH: Final[Fields] = {"model": "resnet-50", "system": "h100_sxm", "gpus": 8, "global_batch": 256}
DENSE: Final[Fields] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 16,
    "global_batch": 64,
}
TABLES: Final[Fields] = {**GRAPH, "model": "dlrm-dcnv2", "system": "tpu_v5p"}
EXPERTS: Final[Fields] = {**DENSE, "model": "Qwen/Qwen3-30B-A3B"}
OLD: Final[Fields] = {
    **DENSE,
    "model": "meta-llama/Llama-2-13b-hf",
    "engine": "megatron@22.06",
}
SITES: Final[Fields] = {**DENSE, "sites": 2, "site_bandwidth": "1GB/s", "site_round_trip_s": 0.1}
GRAPHS: Final[list[tuple[Fields, str]]] = [
    *(({name: 2}, f"{name} = 2: graphs of operators are not divided") for name in rules.DIVIDES),
    ({"sequence_length": 4096}, "sequence_length applies to language models"),
    ({"packed_length": 512}, "packed_length applies to language models"),
    ({"mtp_depth": 1}, "mtp_depth applies to language models"),
    ({"lora_rank": 8}, "lora_rank applies to language models"),
    ({"lora_targets": "attention"}, "lora_targets applies to language models"),
    ({"recompute_modules": "mlp"}, "recompute_modules applies to language models"),
    ({"fused_weight_gradient": True}, "fused_weight_gradient applies to language models"),
    ({"fp8_parameter_gather": True}, "fp8_parameter_gather applies to language models"),
    ({"pipeline_schedule": "1f1b"}, "pipeline_schedule applies to language models"),
    ({"first_stage_layers": 3}, "first_stage_layers applies to language models"),
    ({"last_stage_layers": 3}, "last_stage_layers applies to language models"),
    ({"stage_layers": "2"}, "stage_layers applies to language models"),
    ({"sequence_parallel": True}, "sequence_parallel applies to language models"),
    ({"tensor_overlap": True}, "tensor_overlap applies to language models"),
    ({"cp_communication": "all_gather"}, "cp_communication applies to language models"),
    ({"activation_offload": 0.5}, "activation_offload applies to language models"),
    ({"engine": "megatron"}, "megatron trains language models, and resnet-50 is a graph"),
    ({"recompute": "selective"}, "set recompute = full"),
    ({"format": "fp8"}, "trained in bf16 with weights in 32 bits; leave format out"),
    ({"optimizer": "muon"}, "use adamw or sgd"),
]
RECIPES: Final[list[tuple[Fields, Fields, str]]] = [
    (DENSE, {"engine": "inductor"}, "inductor trains graphs of operators, and meta-llama"),
    (
        DENSE,
        {"system": "h200_sxm{device.architecture=other}", "power_cap_w": 400.0},
        "no energies are known of other",
    ),
    (DENSE, {"tier": "bound", "power_cap_w": 400.0}, "power_cap_w lowers a clock that is"),
    (DENSE, {"tier": "measured"}, "gradients have no measured rows; use auto"),
    (DENSE, {"format": "mxfp8"}, "scale blocks of 32 elements, and h100_sxm has none"),
    (GRAPH, {"system": "tpu_v5p", "engine": "inductor"}, "a device of kind systolic; set engine ="),
    (OLD, {"format": "fp8"}, "fp8_dynamic is not supported by engine = megatron@22.06, which runs"),
    (DENSE, {"engine": "fsdp", "tp": 2}, "tp = 2 is not supported by engine = fsdp@"),
    (DENSE, {"engine": "fsdp", "pp": 2}, "pp = 2 is not supported by engine = fsdp@"),
    (DENSE, {"engine": "fsdp", "cp": 2}, "cp = 2 is not supported by engine = fsdp@"),
    (TABLES, {"ep": 8}, "ep = 8 is not supported by engine = xla@"),
    (OLD, {"zero": 3}, "zero = 3 is not supported by engine = megatron@22.06, which shards up to"),
    (OLD, {"model": "deepseek-ai/DeepSeek-V3"}, "and deepseek-ai/DeepSeek-V3 has others; use a"),
    (OLD, {"model": "mistralai/Mixtral-8x7B-v0.1"}, "is supported for dense models only"),
    (OLD, {"packed_length": 512}, "packed_length = 512 needs fused attention that skips other"),
    (DENSE, {"fp8_parameter_gather": True}, "format = bf16; use fp8_static"),
    (DENSE, {"optimizer_offload": 1.0}, "optimizer_offload needs offload_bandwidth"),
    (DENSE, {"packed_length": 8192}, "packed_length = 8,192 must be at most sequence_length ="),
    (DENSE, {"sites": 2}, "sites = 2 needs site_bandwidth and site_round_trip_s of the links"),
    (SITES, {"sharding_replicas": 3}, "sharding_replicas = 3 must be a multiple of"),
    (DENSE, {"recompute": "selective", "recompute_modules": "mlp,moe"}, "8B has no moe; leave it"),
    (DENSE, {"model": "nvidia/NVIDIA-Nemotron-Nano-9B-v2", "mtp_depth": 1}, "mtp_depth is not"),
]
SINGLE: Final[list[tuple[Fields, Fields, str]]] = [
    (EXPERTS, {"expert_overlap": True}, "hides transfers between experts' ranks; set ep > 1"),
    (
        EXPERTS,
        {"expert_overlap": True, "pp": 2, "ep": 4, "pipeline_schedule": "dualpipe"},
        "pipeline_schedule = dualpipe overlaps experts; omit expert_overlap",
    ),
    (EXPERTS, {"expert_overlap": True, "pp": 2, "vpp": 1, "ep": 4}, "not 1f1b; set vpp > 1"),
    (DENSE, {"tensor_overlap": True}, "hides transfers of tensor parallelism; set tp > 1"),
    (DENSE, {"cp_communication": "all_gather"}, "applies to context-parallel ranks; set cp > 1"),
    (OLD, {"cp": 2}, "cp = 2 needs fused attention, which engine = megatron@22.06 does not run"),
    (SITES, {"sites": 3}, "sites = 3 must divide dp = 16: other parallelism stays in a site"),
    (DENSE, {"sharding_replicas": 3}, "sharding_replicas = 3 must divide the 16 ranks of dp x cp"),
    (
        EXPERTS,
        {"ep": 4, "sharding_replicas": 8},
        "sharding_replicas = 8 must divide the 4 ranks of dp of experts",
    ),
    (DENSE, {"sharding_replicas": 2, "zero": 0}, "applies to shards, and zero = 0 has none"),
    (DENSE, {"first_stage_layers": 3}, "first and last rank hold different stages; pp = 1"),
    (
        DENSE,
        {"pp": 2, "vpp": 2, "first_stage_layers": 3},
        "first_stage_layers = 3 must be a multiple of vpp = 2",
    ),
    (
        DENSE,
        {"pp": 2, "vpp": 2, "last_stage_layers": 3},
        "last_stage_layers = 3 must be a multiple of vpp = 2",
    ),
    (DENSE, {"pp": 2, "first_stage_layers": 40}, "hold 40 layers, and the model has 32"),
    (DENSE, {"pp": 2, "first_stage_layers": 32}, "to 1 other rank, which need at least 1"),
    (
        DENSE,
        {"pp": 2, "stage_layers": "16,16", "first_stage_layers": 8},
        "leave out first_stage_layers and last_stage_layers",
    ),
    (DENSE, {"stage_layers": "16,15,1"}, "has 3 stages, and pp x vpp = 1 x 1 = 1"),
    (DENSE, {"pp": 2, "stage_layers": "16,15"}, "holds 31 layers, and meta-llama/Llama-3.1-8B has"),
]
EXAMPLES: Final = [
    *((rule, GRAPH, *example) for rule, example in zip(rules.GRAPHS, GRAPHS, strict=True)),
    *((rule, *example) for rule, example in zip(rules.RECIPES, RECIPES, strict=True)),
    *((rule, *example) for rule, example in zip(rules.SINGLE, SINGLE, strict=True)),
]


@pytest.mark.parametrize(("rule", "usual", "changed", "words"), EXAMPLES)
def test_a_rule_of_training_steps_refuses_its_example(
    rule: Any,  # noqa: ANN401 - rules of training steps
    usual: Fields,
    changed: Fields,
    words: str,
) -> None:
    read_training(usual)
    with pytest.raises(PerfatlasError) as refused:
        read_training({**usual, **changed})
    assert words in str(refused.value)
    assert type(refused.value) is rule.error
