"""Time of tiled main loops from the demand of their blocks on the units of a multiprocessor.

Shape legend: D designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.lab.tune.chip import Chip

    Array = NDArray[np.float64]

TENSOR, SHARED, VECTOR, ISSUE, L2 = (
    *("tensor cores", "shared memory", "vector units", "issue slots", "L2"),
)
MEMORY, LINKS, LATENCY = "memory", "links", "latency"
FIXED = "launch and other kernels"
REGISTER_UNIT: Final = 8


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What designs of one kernel ask of a chip; a step is one iteration of the main loop."""

    tiles_D: Array
    steps_D: Array  # of a tile
    # Cycles of each unit of an SM that a step of one block occupies
    unit_cycles_D: Mapping[str, Array]
    chain_cycles_D: Array  # of a step of a block alone: what nothing of the block overlaps
    ahead_D: Array  # Steps for which operands are on their way
    tile_cycles_D: Array  # of a tile outside its main loop
    store_bytes_D: Array  # of a tile
    memory_bytes_D: Array  # of the kernel, that miss L2
    threads_D: Array  # of a block
    registers_D: Array  # of a thread
    shared_bytes_D: Array  # of a block
    links_s_D: Array | None = None  # Time of the links to other GPUs [s]
    most_blocks: float = math.inf  # of an SM, of persistent kernels
    fixed_s: Array | float = 0.0  # Launches and other kernels [s]
    # Whether copies and products are asynchronous, and hide each other in full (TMA with wgmma)
    hides_loads_D: NDArray[np.bool_] | None = None
    # Whether a block alternates between units, so that blocks of an SM wait for each other
    alternates: bool = False
    filled_D: Array | None = None  # Share of the rows of a tile that are there; by default all

    def at(self, design: int) -> Demand:
        """Return the demand of one design."""

        def one(value: Any) -> Any:  # noqa: ANN401 - a column, columns by unit, or a number
            if isinstance(value, dict):
                return {name: one(part) for name, part in value.items()}
            return value[design : design + 1] if isinstance(value, np.ndarray) else value

        columns = {field.name: one(getattr(self, field.name)) for field in fields(self)}
        return replace(self, **columns)


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of designs, and what limits each."""

    time_s_D: Array
    blocks_per_sm_D: Array
    unit_s: Mapping[str, Array]  # by unit, as if it worked alone

    def limiting(self, design: int) -> list[tuple[str, float]]:
        """Return the units of a design from the one that limits it, each with its time [s]."""
        times = [(unit, float(times_D[design])) for unit, times_D in self.unit_s.items()]
        return sorted(times, key=lambda pair: -pair[1])


def blocks_per_sm(demand: Demand, chip: Chip) -> Array:
    """Return how many blocks an SM holds; 0 for designs that do not fit (D)."""
    warps_D = np.ceil(demand.threads_D / chip.lanes)
    registers_D = np.ceil(np.maximum(demand.registers_D, 1) / REGISTER_UNIT) * REGISTER_UNIT
    shared_D = demand.shared_bytes_D + chip.reserved_bytes
    limits = (
        chip.registers // (registers_D * warps_D * chip.lanes),
        chip.shared_bytes // np.maximum(shared_D, 1),
        chip.max_warps // warps_D,
        np.full_like(warps_D, min(chip.max_blocks, demand.most_blocks)),
    )
    blocks_D: Array = np.minimum.reduce(limits)
    return blocks_D


def pace_of(demand: Demand, chip: Chip) -> Array:
    """Return the cycles of a step of a block alone: dependent instructions, and loads (D)."""
    power, latency = chip.loop["overlap_power"], chip.loop["latency_s"] * chip.clock_hz
    loads_D = (latency + demand.unit_cycles_D[L2]) / np.maximum(demand.ahead_D, 0.5)
    pace_D: Array = (demand.chain_cycles_D**power + loads_D**power) ** (1 / power)
    if demand.hides_loads_D is None:
        return pace_D
    return np.where(demand.hides_loads_D, np.maximum(demand.chain_cycles_D, loads_D), pace_D)


def times_of(demand: Demand, chip: Chip) -> Times:
    """Return the times of designs.

    An SM works on several blocks at once. Its units serve all of them (throughput); the blocks of
    one slot follow each other, each at the pace of its dependent instructions or of its loads
    (latency). Both, the device memory and the L2 cache overlap imperfectly: their norm of a
    fitted power is the time.

    Source:
        Little's law for loads in flight; constants of data/tuning.toml.

    Limits:
        One launch of equal tiles. Clocks are constant, so power limits are not seen.
    """
    loop = chip.loop
    power = loop["overlap_power"]
    blocks_D = np.maximum(blocks_per_sm(demand, chip), 1.0)
    tiles_D, steps_D = demand.tiles_D, demand.steps_D
    most_D = np.ceil(tiles_D / chip.sm_count)  # tiles of the busiest SM
    rounds_D = np.ceil(tiles_D / (chip.sm_count * blocks_D))  # tiles that follow each other
    store_D = demand.store_bytes_D / loop["store_bytes_per_cycle"]
    busy = {unit: most_D * steps_D * cycles_D for unit, cycles_D in demand.unit_cycles_D.items()}
    throughput_D = np.maximum.reduce(list(busy.values())) + most_D * store_D
    serial_D = rounds_D * (demand.tile_cycles_D + steps_D * pace_of(demand, chip))
    memory_s_D = demand.memory_bytes_D / (chip.memory_bytes_per_s * loop["memory_efficiency"])
    sm_s_D = np.maximum(throughput_D, serial_D) / chip.clock_hz
    if demand.alternates:
        sm_s_D = (throughput_D**power + serial_D**power) ** (1 / power) / chip.clock_hz
    links_s_D = np.zeros_like(sm_s_D) if demand.links_s_D is None else demand.links_s_D
    together_D = sm_s_D**power + memory_s_D**power + links_s_D**power
    time_s_D = together_D ** (1 / power) + demand.fixed_s
    unit_s = {unit: cycles_D / chip.clock_hz for unit, cycles_D in busy.items()}
    unit_s |= {
        MEMORY: memory_s_D,
        LINKS: links_s_D,
        LATENCY: serial_D / chip.clock_hz,
        FIXED: demand.fixed_s + np.zeros_like(time_s_D),
    }
    return Times(time_s_D=time_s_D, blocks_per_sm_D=blocks_D, unit_s=unit_s)
