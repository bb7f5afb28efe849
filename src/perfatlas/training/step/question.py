"""What a training step is asked: candidates that share model, engine and formats.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.energy import power_columns
from perfatlas.machines import DeviceColumns
from perfatlas.training.recipe import PRETRAINING
from perfatlas.training.work import RecomputedModules

if TYPE_CHECKING:
    from perfatlas.energy import PowerColumns
    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import System
    from perfatlas.machines import Tier
    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.training.layouts import Layouts
    from perfatlas.training.profiles import TrainingEngine
    from perfatlas.training.recipe import Recipe

# Formats in which linear layers are multiplied.
TRAINED_FORMATS: Final = ("bf16", "fp8_static", "fp8_dynamic", "fp8_block", "mxfp8", "nvfp4")
# Formats without measured kernels, and those whose kernels price them: the same tensor cores, which
# scale MX blocks as they scale tensors; kernels of fp8_block scale partial sums in registers.
PRICED_AS: Final = {"mxfp8": "fp8_dynamic"}
GRADIENT_BYTES: Final = {"fp32": 4.0, "bf16": 2.0}


@dataclass(frozen=True, kw_only=True)
class TrainingQuestion:
    """Candidates that share model, engine, formats and schedule; layouts and systems vary."""

    network: Network
    engine: TrainingEngine
    formats: ModelFormats  # Number formats of products; weights are stored in bf16
    tier: Tier  # Pricing tier
    systems: tuple[System, ...]  # Distinct systems
    index_C: IntArray  # System of each candidate (C,)
    layouts: Layouts  # The layouts (C,)
    schedule: str = "1f1b"  # Pipeline schedule
    optimizer: str = "adamw"
    gradient_format: str = "fp32"  # Format of accumulated gradients
    distribution: str = "balanced"  # Routing of tokens to experts
    # Whether a forward pass runs beside a backward pass of another micro-batch wherever a schedule
    # other than DualPipe has both, to hide the transfers of experts
    expert_overlap: bool = False
    # How tokens travel to experts: "alltoall", a copy per expert, or "deepep", one per node, which
    # forwards it. "" is the engine's.
    dispatcher: str = ""
    # What runs without the host: "none", "attention" (and the router), or "full"
    cuda_graphs: str = "full"
    # Number format of tokens on their way to experts. "" is the engine's.
    dispatch_format: str = ""
    fused_experts: bool = False  # Whether products of experts activate and quantize what they write
    recipe: Recipe = PRETRAINING  # Adapters, recomputed modules, optimizer states and offloading
    # Clock that a user locks, relative to the sustained clock of the power model, at which kernels
    # were measured; 1 locks none
    clock_ratio: float = 1.0
    power_cap_w: float = math.inf  # Power limit of a GPU [W], beside its TDP
    # Clock at which kernels are priced (C,), None for `clock_ratio`
    clock_C: FloatArray | None = None

    @property
    def has_interval_of_moe(self) -> bool:
        """Whether the interval is that of MoE models: the fitted models with recurrent layers."""
        network = self.network
        return network.has_experts or any(group.is_recurrent for group in network.layers)

    @property
    def graph(self) -> EngineProfile | None:
        """The engine whose kernels run a graph of operators, None for a language model."""
        if not self.network.item:
            return None
        from perfatlas.engines import resolve_engine  # language models train without them

        profile = resolve_engine(self.engine.graph_engine)
        kernels = profile.graph_kernels
        permuted = kernels is not None and self.network.permutes_images and kernels.nhwc
        return resolve_engine(permuted) if permuted else profile

    def devices(self) -> DeviceColumns:
        """Return the device of each candidate."""
        locked_C = np.full(self.layouts.size, self.clock_ratio)
        return DeviceColumns(
            devices=tuple(system.device for system in self.systems),
            index_C=np.asarray(self.index_C, np.int64),
            clock_ratio_C=locked_C if self.clock_C is None else self.clock_C,
        )

    def power(self) -> PowerColumns:
        """Return the power of the device of each candidate, with its limits."""
        size = self.layouts.size
        limit_w_C = None if math.isinf(self.power_cap_w) else np.full(size, self.power_cap_w)
        locked_C = None if self.clock_ratio == 1.0 else np.full(size, self.clock_ratio)
        return power_columns(self.devices(), limit_w_C, locked_C)

    @property
    def priced_formats(self) -> ModelFormats:
        """Formats whose kernels price the step."""
        gemm = PRICED_AS.get(self.formats.gemm, self.formats.gemm)
        moe = PRICED_AS.get(self.formats.moe, self.formats.moe)
        return replace(self.formats, gemm=gemm, moe=moe)

    @property
    def modules(self) -> RecomputedModules:
        """What selective recomputation runs again."""
        modules, selective = self.recipe.recompute_modules, self.engine.selective_recompute
        if modules and selective == "operators":
            return RecomputedModules(modules)
        return RecomputedModules(modules or self.engine.recompute_modules, selective)

    @property
    def moment_format(self) -> str:
        """Number format of the optimizer's moments."""
        return self.recipe.moment_format or self.engine.moment_format

    @property
    def gradient_bytes(self) -> float:
        """Bytes of an accumulated gradient."""
        return GRADIENT_BYTES[self.gradient_format]
