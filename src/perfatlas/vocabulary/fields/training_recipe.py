"""Fields of a training recipe: adapters, recomputed modules, optimizer states and offloading."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.vocabulary.fields.clusters import Duration
from perfatlas.vocabulary.fields.conditions import AnySet, Equals, Fact, Noted, NotEqual, NotSet
from perfatlas.vocabulary.fields.numbers import Count, Number, Share
from perfatlas.vocabulary.fields.rows import Checked, Text, group

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


def _modules(text: str) -> str:
    """Return names of modules, separated by commas, in the order of `RECOMPUTE_MODULES`."""
    modules = [part.strip().casefold() for part in text.split(",")]
    unknown = [name for name in modules if name not in RECOMPUTE_MODULES]
    if unknown:
        raise InvalidSpecError(
            f"recompute_modules = {repr_for_error(unknown[0])} is not a module; use"
            f" {', '.join(RECOMPUTE_MODULES)}, separated by commas"
        )
    return ",".join(name for name in RECOMPUTE_MODULES if name in modules)


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

    lora_rank: Annotated[int, Number(at_least=1, at_most=4096)] | None = None
    lora_targets: Annotated[
        Literal["all", "attention", "qkv"], AnySet("lora_rank", example="16")
    ] = "all"
    recompute_modules: Annotated[
        Annotated[str, Text(), Checked(_modules)] | None, Equals("recompute", "selective")
    ] = None
    mtp_depth: Annotated[int, Number(at_least=0, at_most=16)] = 0
    packed_length: Count | None = None
    moment_format: Literal["fp32", "bf16", "fp8"] | None = None
    fp8_parameter_gather: bool = False
    fused_weight_gradient: Annotated[
        bool, Noted(NotSet("lora_rank", "freezes the weights, which have no gradients"))
    ] = True
    sharding_replicas: Annotated[int, Number(at_least=1, at_most=131_072)] = 1
    sites: Annotated[int, Number(at_least=1, at_most=64)] = 1
    site_bandwidth: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0)] | None, NotEqual("sites", 1)
    ] = None
    site_round_trip_s: Annotated[Duration | None, NotEqual("sites", 1)] = None
    tensor_overlap: bool | None = None
    dispatch_format: Annotated[Literal["bf16", "fp8_block"] | None, Fact("experts")] = None
    cp_communication: Literal["ring", "all_gather"] = "ring"
    activation_offload: Share | None = None
    optimizer_offload: Share | None = None
    offload_bandwidth: Annotated[
        Annotated[float, Number(unit="bytes/s", above=0.0)] | None,
        AnySet("optimizer_offload", example="1"),
    ] = None
    input_cores: Annotated[Count | None, Fact("graph")] = None
    input_rate: Annotated[
        Annotated[float, Number(unit="items/s", at_least=1e-3, at_most=1e9)] | None,
        AnySet("input_cores", example="16"),
    ] = None


@group("Layout", 3)
class UnevenStages:
    """Layers of the first and the last pipeline stage."""

    first_stage_layers: Count | None = None
    last_stage_layers: Count | None = None
    stage_layers: Annotated[str, Text(), Checked(_stages)] | None = None


@group("Checkpoints", 6)
class TrainingCheckpoints:
    """How checkpoints reach storage."""

    checkpoint_bytes_per_s: (
        Annotated[float, Number(unit="bytes/s", above=0.0, at_most=1e18)] | None
    ) = None
    async_checkpoint: Annotated[bool, AnySet("checkpoint_bytes_per_s")] = True
