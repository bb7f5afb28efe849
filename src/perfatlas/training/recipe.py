"""What a training recipe adds to its layout: adapters, recomputed modules, offloading, states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Choices of a training recipe that all candidates of a question share."""

    lora_rank: int = 0  # Rank of LoRA adapters; 0 trains all weights
    # Linear layers that have adapters: "all" outside routed experts, those of "attention", or "qkv"
    lora_targets: str = "all"
    # Modules that selective recomputation runs again; empty for those of the engine
    recompute_modules: tuple[str, ...] = ()
    mtp_depth: int = 0  # Multi-token-prediction layers, on the last stage
    first_stage_layers: int = 0  # Layers on the first pipeline rank; 0 for an even division
    last_stage_layers: int = 0  # Layers on the last pipeline rank; 0 for an even division
    # Layers of every pipeline stage, in the order of the layers; empty for an even division
    stage_layers: tuple[int, ...] = ()
    moment_format: str = ""  # Number format of the optimizer's moments, "" for the engine's
    fp8_parameter_gather: bool = False  # Whether weights of layers are stored and gathered in FP8
    # Whether products of weight gradients add to the accumulated gradients themselves
    fused_weight_gradient: bool = True
    # Groups of data-parallel ranks that hold the same shards; 1 shards over all ranks
    sharding_replicas: int = 1
    sites: int = 1  # Data centers over which data-parallel ranks are spread; shards stay inside one
    site_bandwidth: float = 0.0  # Rate of the link of a site to the others, per direction [bytes/s]
    site_round_trip_s: float = 0.0  # Round trip between two sites [s]
    # Share of the kept activations of layers that is moved to the host
    activation_offload: float = 0.0
    optimizer_offload: float = 0.0  # Share of the optimizer states on the host
    # Rate at which the host reads and writes offloaded states, per GPU [bytes/s]
    offload_bandwidth: float = 0.0
    # Items that the host decodes and augments for a GPU, with the ends of its 90% interval: least,
    # likely and most [items/s]; infinite where the input limits no step
    input_rates: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    # How keys and values reach context-parallel ranks: "ring", in tiles beside attention, or
    # "all_gather", before it
    cp_communication: str = "ring"
    # Tokens of the documents packed into a sequence, which attention does not leave; 0 for one
    # document per sequence
    packed_length: int = 0


PRETRAINING: Final = Recipe()
