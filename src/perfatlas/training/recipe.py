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
        moment_format: Number format of the optimizer's moments, "" for the engine's.
        fp8_parameter_gather: Whether weights of layers are stored and gathered in FP8.
        sharding_replicas: Groups of data-parallel ranks that hold the same shards; 1 shards over
            all ranks.
        activation_offload: Share of the kept activations of layers that is moved to the host.
        optimizer_offload: Share of the optimizer states on the host.
        offload_bandwidth: Rate at which the host reads and writes offloaded states, per GPU
            [bytes/s].
        packed_length: Tokens of the documents packed into a sequence, which attention does not
            leave; 0 for one document per sequence.
    """

    lora_rank: int = 0
    lora_targets: str = "all"
    recompute_modules: tuple[str, ...] = ()
    mtp_depth: int = 0
    first_stage_layers: int = 0
    last_stage_layers: int = 0
    moment_format: str = ""
    fp8_parameter_gather: bool = False
    sharding_replicas: int = 1
    activation_offload: float = 0.0
    optimizer_offload: float = 0.0
    offload_bandwidth: float = 0.0
    packed_length: int = 0


PRETRAINING: Final = Recipe()
