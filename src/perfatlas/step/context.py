"""Context shared by all steps of a scenario: model, formats, engine, plan and placement.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import power_columns
from perfatlas.hardware import is_pod, slice_of_pod
from perfatlas.machines import DeviceColumns
from perfatlas.parallelism import node_gpus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.energy import PowerColumns
    from perfatlas.engines import EngineProfile, Launches
    from perfatlas.hardware import System
    from perfatlas.machines import Tier
    from perfatlas.networks import ModelFormats, Network
    from perfatlas.operators import FloatArray, IntArray, MeasuredLoads
    from perfatlas.parallelism import PlanColumns

# of a placement
OPTIONAL: Final = (
    *("clock_ratio_C", "power_cap_w_C", "by_node_C", "higher_limit_w_C", "zeros_C"),
    *("weight_offload_C", "kv_offload_C", "prefetch_C"),
)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """System, clock and power limit of the candidates."""

    systems: tuple[System, ...]  # Distinct systems
    index_C: IntArray  # System of each candidate (C,)
    # Clock relative to the sustained clock (C,), None for 1
    clock_ratio_C: FloatArray | None = None
    # Power limit of a GPU (C,) [W], inf for none; None if no candidate has one
    power_cap_w_C: FloatArray | None = None
    # Whether it follows from the limit of its node (C,); None if none does
    by_node_C: NDArray[np.bool_] | None = None
    # The higher of the limits that a GPU and its node set (C,) [W], inf where one of them sets
    # none; None if no candidate has both
    higher_limit_w_C: FloatArray | None = None
    zeros_C: NDArray[np.bool_] | None = None  # Whether all tensors hold zeros (C,); None if none do
    # Shares of the weights and of the KV cache in the second memory (C,); None if none are
    weight_offload_C: FloatArray | None = None
    kv_offload_C: FloatArray | None = None
    # Whether those weights are fetched ahead of their operators (C,); None if none are
    prefetch_C: NDArray[np.bool_] | None = None

    @property
    def offloads(self) -> bool:
        """Whether a second memory holds weights or a KV cache."""
        return self.weight_offload_C is not None or self.kv_offload_C is not None

    def devices(self) -> DeviceColumns:
        """Return the devices of the systems as columns."""
        return self._devices

    @cached_property
    def _devices(self) -> DeviceColumns:
        return DeviceColumns(
            devices=tuple(s.device for s in self.systems),
            index_C=self.index_C,
            clock_ratio_C=self.clock_ratio_C,
        )

    def sustained(self) -> DeviceColumns:
        """Return the devices of the systems at their sustained clocks."""
        return replace(self.devices(), clock_ratio_C=None, gathered={})

    def domain(self) -> FloatArray:
        """Return the GPUs of a scale-up domain (C,)."""
        sizes = [float(system.device.scale_up.domain_size) for system in self.systems]
        domain_C: FloatArray = np.array(sizes)[self.index_C]
        return domain_C

    def node(self) -> FloatArray:
        """Return the GPUs of a node, or of a scale-up domain where it is larger (C,)."""
        sizes = np.array([node_gpus(system) for system in self.systems])
        node_C: FloatArray = sizes[self.index_C]
        return node_C

    def power(self) -> PowerColumns:
        """Return the power of the devices, with their limits."""
        return self._power

    @cached_property
    def _power(self) -> PowerColumns:
        return power_columns(self.devices(), self.power_cap_w_C, self.clock_ratio_C)

    def on_slices(self, chips_C: FloatArray) -> Placement:
        """Return the placement with the slice of a pod that each candidate is.

        Args:
            chips_C: Devices of the candidate (C,).
        """
        if not any(map(is_pod, self.systems)):
            return self
        pairs_2U, index_C = np.unique(
            np.stack([self.index_C, chips_C]), axis=1, return_inverse=True
        )
        pairs = pairs_2U.astype(np.int64).T.tolist()
        return replace(
            self,
            systems=tuple(slice_of_pod(self.systems[index], chips) for index, chips in pairs),
            index_C=index_C.astype(np.int64).reshape(-1),
        )

    def take(self, index_R: IntArray) -> Placement:
        """Return the columns at the given positions.

        Args:
            index_R: Positions (R,).
        """
        columns: dict[str, Any] = {"index_C": self.index_C[index_R]}
        for name in OPTIONAL:
            column = getattr(self, name)
            columns[name] = column if column is None else column[index_R]
        return replace(self, **columns)


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """Context shared by all steps of a scenario."""

    network: Network
    formats: ModelFormats  # Number formats
    profile: EngineProfile
    placement: Placement  # System and clock of each candidate
    plan: PlanColumns  # Parallel sizes (C,)
    tier: Tier  # Tier of pricing
    # "uniform", "balanced", "power_law_<alpha>" or measured loads
    expert_distribution: str | MeasuredLoads = "uniform"
    rebalance_steps: int = 0  # Steps between rebalances of experts (EPLB), 0 to count none
    silicon_version: str = ""  # Version of the measured tables, "" for that of the calibrations
    drafts: int = 0  # Draft tokens per sequence and decode step; 0 without speculative decoding
    # Output tokens that decoding sequences have so far, on average (C,), if the host reads them in
    # every step; None if it does not
    history_C: FloatArray | None = None
    # Images that are encoded per new token of a prompt (C,); None where requests have none
    images_per_token_C: FloatArray | None = None

    def launch_s(self, layers: FloatArray | float, launches: Launches) -> FloatArray:
        """Return the host time to launch the kernels of a step with prompts (C,) [s].

        None in tier bound: the speed of a host is no lower limit.

        Args:
            launches: What it launches if no CUDA graph runs.
        """
        launch_s_C = self.profile.host.prefill_launch_s(layers, launches)
        return np.zeros_like(launch_s_C) if self.tier == "bound" else launch_s_C

    def sequence_host_s(self) -> FloatArray | float:
        """Return the host time of each decoding sequence in a step, (C,) or one number [s]."""
        host = self.profile.host
        if self.history_C is None:
            return host.per_sequence_s
        own_s_C: FloatArray = host.per_sequence_s + self.history_C * host.history_token_s()
        return own_s_C

    def limits_act(self) -> bool:
        """Return whether a lock, a power limit or the tensors' values may change a step's clock."""
        return self.placement.clock_ratio_C is not None or self.power_acts()

    def power_acts(self) -> bool:
        """Return whether power may leave a step another clock than the measured kernels had."""
        if self.tier == "bound":  # at the roofline, a clock that a model predicts is no limit
            return False
        power = self.placement.power()
        moved = bool(np.any(power.clock_limit_w != power.calibrated_w))
        return moved or self.placement.zeros_C is not None
