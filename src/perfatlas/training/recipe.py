"""What a training recipe adds to its layout: adapters, recomputed modules, offloading, states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Choices of a training recipe that all candidates of a question share.

    Args:
        lora_rank: Rank of LoRA adapters; 0 trains all weights.
        lora_targets: Linear layers that have adapters: "all" outside routed experts, those of
            "attention", or "qkv".
        recompute_modules: Modules that selective recomputation runs again; empty for those of the
            engine.
        mtp_depth: Multi-token-prediction layers, on the last stage.
        first_stage_layers: Layers on the first pipeline rank; 0 for an even division.
        last_stage_layers: Layers on the last pipeline rank; 0 for an even division.
        stage_layers: Layers of every pipeline stage, in the order of the layers; empty for an even
            division.
        moment_format: Number format of the optimizer's moments, "" for the engine's.
        fp8_parameter_gather: Whether weights of layers are stored and gathered in FP8.
        fused_weight_gradient: Whether products of weight gradients add to the accumulated gradients
            themselves.
        sharding_replicas: Groups of data-parallel ranks that hold the same shards; 1 shards over
            all ranks.
        sites: Data centers over which data-parallel ranks are spread; shards stay inside one.
        site_bandwidth: Rate of the link of a site to the others, per direction [bytes/s].
        site_round_trip_s: Round trip between two sites [s].
        activation_offload: Share of the kept activations of layers that is moved to the host.
        optimizer_offload: Share of the optimizer states on the host.
        offload_bandwidth: Rate at which the host reads and writes offloaded states, per GPU
            [bytes/s].
        cp_communication: How keys and values reach context-parallel ranks: "ring", in tiles beside
            attention, or "all_gather", before it.
        packed_length: Tokens of the documents packed into a sequence, which attention does not
            leave; 0 for one document per sequence.
    """

    lora_rank: int = 0
    lora_targets: str = "all"
    recompute_modules: tuple[str, ...] = ()
    mtp_depth: int = 0
    first_stage_layers: int = 0
    last_stage_layers: int = 0
    stage_layers: tuple[int, ...] = ()
    moment_format: str = ""
    fp8_parameter_gather: bool = False
    fused_weight_gradient: bool = True
    sharding_replicas: int = 1
    sites: int = 1
    site_bandwidth: float = 0.0
    site_round_trip_s: float = 0.0
    activation_offload: float = 0.0
    optimizer_offload: float = 0.0
    offload_bandwidth: float = 0.0
    cp_communication: str = "ring"
    packed_length: int = 0


PRETRAINING: Final = Recipe()
