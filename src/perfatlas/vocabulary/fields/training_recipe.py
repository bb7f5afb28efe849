"""Fields of a training recipe: adapters, recomputed modules, optimizer states and offloading."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.vocabulary.fields.clusters import Duration
from perfatlas.vocabulary.fields.conditions import AnySet, Equals, Fact, Noted, NotEqual, NotSet
from perfatlas.vocabulary.fields.numbers import Count, Number
from perfatlas.vocabulary.fields.rows import Checked, Row, Text, group

# Parts of a layer that the backward pass can run again.
# Source: names of Megatron-LM, TransformerConfig.recompute_modules.
RECOMPUTE_MODULES: Final[tuple[str, ...]] = (
    "core_attn",
    "layernorm",
    "mla_up_proj",
    "mlp",
    "moe",
    "moe_act",
    "shared_experts",
)
Share = Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)]


def _modules(text: str) -> str:
    """Return names of modules, separated by commas, in the order of `RECOMPUTE_MODULES`."""
    given = [part.strip().casefold() for part in text.split(",")]
    unknown = [name for name in given if name not in RECOMPUTE_MODULES]
    if unknown:
        raise InvalidSpecError(
            f"recompute_modules = {repr_for_error(unknown[0])} is not a module; use"
            f" {', '.join(RECOMPUTE_MODULES)}, separated by commas"
        )
    return ",".join(name for name in RECOMPUTE_MODULES if name in given)


def _stages(text: str) -> str:
    """Return layers of stages, such as 4x15,1, without spaces."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,4}(x\d{1,4})?", part) for part in parts):
        raise InvalidSpecError(
            f"stage_layers = {repr_for_error(text)} must be layers of stages, separated by commas;"
            " 4x15,1 is fifteen stages of 4 layers and one of 1"
        )
    return ",".join(parts)


@group("Recipe", 5)
class TrainingRecipe:
    """Adapters, recomputed modules, optimizer states and offloading."""

    lora_rank: Annotated[
        Annotated[int, Number(at_least=1, at_most=4096)] | None,
        Row(
            "Rank of LoRA adapters; all other weights are frozen.",
            default="none: all weights are trained",
            elsewhere=("lora", "lora_dim", "peft_dim", "lora_r"),
        ),
    ] = None
    lora_targets: Annotated[
        Literal["all", "attention", "qkv"],
        Row(
            "Linear layers with adapters: all outside routed experts, those of attention, or the"
            " projections of queries, keys and values (qkv).",
            needs=AnySet("lora_rank", example="16"),
            elsewhere=("target_modules",),
        ),
    ] = "all"
    recompute_modules: Annotated[
        Annotated[str, Text(), Checked(_modules)] | None,
        Row(
            "Modules that recompute = selective runs again, separated by commas: core_attn,"
            " layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts.",
            default="the engine's",
            needs=Equals("recompute", "selective"),
        ),
    ] = None
    mtp_depth: Annotated[
        Annotated[int, Number(at_least=0, at_most=16)],
        Row(
            "Multi-token-prediction layers, on the last pipeline stage.",
            elsewhere=("mtp_num_layers", "num_nextn_predict_layers"),
        ),
    ] = 0
    packed_length: Annotated[
        Count | None,
        Row(
            "Tokens of the documents packed into a sequence; attention does not cross them. For"
            " documents of several lengths, the mean over tokens.",
            default="the sequence length",
            elsewhere=("packed_sequence_size",),
        ),
    ] = None
    moment_format: Annotated[
        Literal["fp32", "bf16", "fp8"] | None,
        Row(
            "Number format of the optimizer's moments.",
            default="the engine's",
            elsewhere=("exp_avg_dtype",),
        ),
    ] = None
    fp8_parameter_gather: Annotated[
        bool,
        Row(
            "Store and gather the weights of layers in FP8, with lora_rank the frozen ones; needs"
            " an FP8 format.",
            elsewhere=("fp8_param_gather", "fp8_param"),
        ),
    ] = False
    fused_weight_gradient: Annotated[
        bool,
        Row(
            "Products of weight gradients add to the accumulated gradients themselves, instead of a"
            " kernel per micro-batch.",
            needs=Noted(NotSet("lora_rank", "freezes the weights, which have no gradients")),
            elsewhere=("gradient_accumulation_fusion",),
        ),
    ] = True
    sharding_replicas: Annotated[
        Annotated[int, Number(at_least=1, at_most=131_072)],
        Row(
            "Groups of data-parallel ranks that hold the same shards of zero (hybrid sharding):"
            " shards stay inside a group, and gradients are also reduced across groups.",
            elsewhere=("num_distributed_optimizer_instances", "data_parallel_replicate_degree"),
        ),
    ] = 1
    sites: Annotated[
        Annotated[int, Number(at_least=1, at_most=64)],
        Row(
            "Data centers over which data-parallel ranks are spread; shards of zero stay inside"
            " one, and gradients are also reduced between them.",
        ),
    ] = 1
    site_bandwidth: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0)] | None,
        Row(
            "Rate of the link of a site to the others, per direction, such as 100GB/s.",
            default="none; needed with sites",
            needs=NotEqual("sites", 1),
        ),
    ] = None
    site_round_trip_s: Annotated[
        Duration | None,
        Row(
            "Round-trip time between two sites.",
            default="none; needed with sites",
            needs=NotEqual("sites", 1),
        ),
    ] = None
    tensor_overlap: Annotated[
        bool | None,
        Row(
            "Run transfers of tensor parallelism in tiles beside the products they belong to"
            " (asynchronous TP); needs tp > 1.",
            default="the engine's",
            elsewhere=("tp_comm_overlap", "enable_async_tensor_parallel", "async_tp"),
        ),
    ] = None
    dispatch_format: Annotated[
        Literal["bf16", "fp8_block"] | None,
        Row(
            "Number format in which tokens travel to experts; they come back in bf16.",
            default="the engine's",
            needs=Fact("experts"),
        ),
    ] = None
    cp_communication: Annotated[
        Literal["ring", "all_gather"],
        Row(
            "How keys and values reach context-parallel ranks: around a ring beside attention"
            " (ring), or gathered before it (all_gather), as Llama 3 was trained.",
            elsewhere=("cp_comm_type",),
        ),
    ] = "ring"
    activation_offload: Annotated[
        Share | None,
        Row(
            "Share of the activations of layers that is moved to the memory of the host until"
            " their backward pass.",
            default="0",
            elsewhere=("cpu_offloading",),
        ),
    ] = None
    optimizer_offload: Annotated[
        Share | None,
        Row(
            "Share of the optimizer states on the host, which updates their weights.",
            default="0",
            elsewhere=("optimizer_offload_fraction", "optimizer_cpu_offload"),
        ),
    ] = None
    offload_bandwidth: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0)] | None,
        Row(
            "Rate at which the host reads and writes offloaded optimizer states, per GPU: its"
            " memory bandwidth over the GPUs, or that of NVMe.",
            default="none; needed with optimizer_offload",
            needs=AnySet("optimizer_offload", example="1"),
        ),
    ] = None
    input_cores: Annotated[
        Count | None,
        Row(
            "CPU cores per GPU that decode and augment the items of the next steps.",
            default="none: the input never limits a step",
            needs=Fact("graph"),
            elsewhere=("num_workers", "dataloader_num_workers"),
        ),
    ] = None
    input_rate: Annotated[
        Annotated[float, Number(unit="items/s", at_least=1e-3, at_most=1e9)] | None,
        Row(
            "Items that one of them decodes and augments.",
            default="that at which torchvision decodes JPEG images of ImageNet",
            needs=AnySet("input_cores", example="16"),
        ),
    ] = None


@group("Layout", 3)
class UnevenStages:
    """Layers of the first and the last pipeline stage."""

    first_stage_layers: Annotated[
        Count | None,
        Row(
            "Layers on the first pipeline rank; other ranks divide the rest.",
            default="as on the others",
            elsewhere=("decoder_first_pipeline_num_layers",),
        ),
    ] = None
    last_stage_layers: Annotated[
        Count | None,
        Row(
            "Layers on the last pipeline rank; other ranks divide the rest.",
            default="as on the others",
            elsewhere=("decoder_last_pipeline_num_layers",),
        ),
    ] = None
    stage_layers: Annotated[
        Annotated[str, Text(), Checked(_stages)] | None,
        Row(
            "Layers of each of the pp x vpp stages in the order of the layers, such as 4x15,1; the"
            " first also holds the embedding, the last one the head and multi-token prediction.",
            default="an even division",
            elsewhere=("pipeline_model_parallel_layout", "pp_layout"),
        ),
    ] = None


@group("Checkpoints", 6)
class TrainingCheckpoints:
    """How checkpoints reach storage."""

    checkpoint_bytes_per_s: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e18)] | None,
        Row(
            "Storage bandwidth for the checkpoints of the whole job, such as 100GB/s.",
            default="none: times of checkpoints are not predicted",
            elsewhere=("checkpoint_bandwidth", "checkpoint_write_bandwidth"),
        ),
    ] = None
    async_checkpoint: Annotated[
        bool,
        Row(
            "Train on while storage writes a checkpoint; steps wait for the copy to hosts alone.",
            needs=AnySet("checkpoint_bytes_per_s"),
            elsewhere=("async_save",),
        ),
    ] = True
