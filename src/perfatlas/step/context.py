"""Context shared by all steps of a scenario: model, formats, engine, plan and placement.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfatlas.kernels.devices import DeviceColumns

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile
    from perfatlas.hardware import System
    from perfatlas.kernels.tiers import Tier
    from perfatlas.models import Architecture, ModelFormats
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.parallelism import PlanColumns


@dataclass(frozen=True, kw_only=True)
class Placement:
    """System and clock of the candidates.

    Args:
        systems: Distinct systems.
        index_C: System of each candidate (C,).
        clock_ratio_C: Clock relative to the default clock (C,), None for 1.
    """

    systems: tuple[System, ...]
    index_C: IntArray
    clock_ratio_C: FloatArray | None = None

    def devices(self) -> DeviceColumns:
        """Return the devices of the systems as columns."""
        return DeviceColumns(
            devices=tuple(s.device for s in self.systems),
            index_C=self.index_C,
            clock_ratio_C=self.clock_ratio_C,
        )


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Context shared by all steps of a scenario.

    Args:
        architecture: The model.
        formats: Number formats.
        profile: The engine.
        placement: System and clock of each candidate.
        plan: Parallel sizes (C,).
        tier: Tier of pricing.
        expert_distribution: "uniform", "balanced" or "power_law_<alpha>".
        silicon_version: Version of the measured tables, "" for that of the calibrations.
        drafts: Draft tokens per sequence and decode step; 0 without speculative decoding.
    """

    architecture: Architecture
    formats: ModelFormats
    profile: EngineProfile
    placement: Placement
    plan: PlanColumns
    tier: Tier
    expert_distribution: str = "uniform"
    silicon_version: str = ""
    drafts: int = 0
