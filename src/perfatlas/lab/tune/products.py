"""Demand of matrix products, dense and grouped by expert, in Triton.

Shape legend: D designs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.lab.tune import loop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.designs import Designs
    from perfatlas.lab.tune.loop import Array

LANES: Final = 128.0  # FP32 operations, and bytes of shared memory, per cycle of an SM
WARPGROUP: Final = 4  # warps
MMA_ROWS: Final = 16  # of an instruction of one warp
BLOCK: Final = 128  # elements that share a scale
SECTORS: Final = 32.0  # Standard deviations are cut beyond; few groups have more rows


@dataclass(frozen=True, kw_only=True)
class Product:
    """Products of groups of rows with a matrix of their own: (rows, k) x (k, n)."""

    rows: float  # of all groups
    groups: int  # 1 for a dense product
    n: int
    k: int
    element_bytes: float  # of both operands
    output_bytes: float = 2.0
    block_scaled: bool = False  # Partial sums of 128 are scaled and added in registers
    # Whether tiles are copied by tensor descriptors, by persistent blocks, one on each SM
    persistent: bool = False
    routed: bool = False  # Rows choose their group at random; otherwise groups are equal
    fixed_s: float = 0.0  # Launch and other kernels

    def demand(self, designs: Designs, chip: Chip) -> loop.Demand:
        """Return what designs ask of a chip.

        Rows of a tile beyond those of its group are neither read nor written, but multiplied.

        Source:
            PTX ISA (wgmma, tcgen05), kernels that Triton 3.9 compiles; rules of DeepGEMM and
            Origami for L2 and waves.

        Limits:
            Registers are estimates: compiled kernels replace them.
        """
        c, rows_D, columns_D, depth_D = chip.loop, designs["bm"], designs["bn"], designs["bk"]
        warps_D, stages_D, width = designs["warps"], designs["stages"], self.element_bytes
        splits_D = designs.columns.get("splits", np.ones(len(designs)))
        own_D = asynchronous_mma(designs, chip)
        high_D, active = row_tiles(self, rows_D)
        across_D = np.ceil(self.n / columns_D)
        tiles_D = high_D * across_D * splits_D
        steps_D = np.ceil(self.k / depth_D / splits_D)
        # rows of a tile that are there: of the fullest one, or of the mean of routed rows
        filled_D = np.minimum(rows_D, self.rows / (high_D if self.routed else self.groups))

        rate_D = np.where(own_D, chip.mma_flop, chip.warp_mma_flop) * c["mma_efficiency"]
        if self.block_scaled:
            rate_D = rate_D * c["scaled_efficiency"]
        mma_D = 2.0 * rows_D * columns_D * depth_D / rate_D
        if chip.tensor_memory_columns:  # half of the lanes
            mma_D = np.where(own_D & (rows_D < BLOCK), mma_D * c["half_lanes"], mma_D)
        # warps above each other: tiles of warps are about square
        down_D = 2.0 ** np.round(np.log2(warps_D * rows_D / columns_D) / 2)
        down_D = np.clip(down_D, np.maximum(warps_D * MMA_ROWS / columns_D, 1), warps_D)
        down_D = np.clip(down_D, 1, np.maximum(rows_D / MMA_ROWS, 1))
        beside_D = warps_D / down_D
        by_warps_D = (rows_D * beside_D + columns_D * down_D) * depth_D * width
        by_groups_D = (rows_D + columns_D * np.maximum(rows_D / 64, 1)) * depth_D * width / 2
        written_D = (rows_D + columns_D) * depth_D * width
        shared_D = (np.where(own_D, by_groups_D, by_warps_D) + written_D) / LANES
        converted_D = (rows_D * beside_D + columns_D * down_D) * depth_D / 2
        converted_D = np.where(
            ~own_D & chip.converts, converted_D / c["conversions_per_cycle"], 0.0
        )
        promoted_D = np.zeros(len(designs))
        if self.block_scaled:
            promoted_D = rows_D * columns_D * np.ceil(depth_D / BLOCK) / LANES * c["promotion"]
        moved_D = (filled_D + columns_D) * depth_D * width
        loaded_D = (moved_D + (filled_D + columns_D) * c["row_bytes"]) / chip.l2_bytes
        if self.persistent and chip.asynchronous_rows:
            loaded_D = moved_D / c["tensor_copy_bytes"]
        few_warps_D = 4 / np.minimum(warps_D, 4)
        # asynchronous instructions run while their block waits at barriers
        power, waits_D = c["overlap_power"], c["sync_cycles"] + c["warp_cycles"] * warps_D
        alone_D = np.where(
            own_D,
            (mma_D**power + waits_D**power) ** (1 / power),
            waits_D + (shared_D / 2 + converted_D + mma_D) * few_warps_D,
        )
        chain_D = alone_D + promoted_D * few_warps_D
        if chip.tensor_memory_columns and self.block_scaled:
            read_D = c["tensor_memory_cycles"] + rows_D * columns_D / LANES
            chain_D = chain_D + np.where(own_D, read_D, 0.0)

        area_D = rows_D * columns_D
        held_D = area_D / (chip.lanes * warps_D)
        in_registers_D = ~own_D | (chip.tensor_memory_columns == 0) | self.block_scaled
        registers_D = np.where(
            in_registers_D,
            np.where(own_D, 45 + 1.05 * held_D, 42 + 1.25 * held_D) + self.block_scaled * held_D,
            60 + 0.55 * held_D,
        )
        if chip.lanes > LANES / 4:  # waves of AMD GPUs hold operands of a step on their way
            loads_D = written_D / 4 / (chip.lanes * warps_D)
            registers_D = 48 + held_D * (1 + self.block_scaled) + loads_D
        staged_D = np.zeros(len(designs))
        if self.persistent and chip.asynchronous_rows:  # of the output, or of its parts
            staged_D = area_D * np.where(splits_D > 1, 4.0, self.output_bytes)
        buffers_D = np.where(own_D, stages_D, np.maximum(stages_D - 1, 1))
        partial_D = np.where(splits_D > 1, 8.0 * splits_D * self.rows * self.n, 0.0)
        return loop.Demand(
            tiles_D=tiles_D,
            steps_D=steps_D,
            unit_cycles_D={
                loop.TENSOR: mma_D,
                loop.SHARED: shared_D,
                loop.VECTOR: converted_D + promoted_D,
                loop.L2: loaded_D,
            },
            chain_cycles_D=chain_D,
            ahead_D=stages_D - 1,
            tile_cycles_D=np.full(len(designs), c["tile_cycles"]),
            store_bytes_D=filled_D * columns_D * self.output_bytes
            + area_D / LANES * c["store_bytes_per_cycle"],
            memory_bytes_D=_memory_bytes(self, designs, chip, tiles_D, active)
            + partial_D / c["partial_rate"],
            threads_D=warps_D * chip.lanes,
            registers_D=registers_D,
            shared_bytes_D=buffers_D * written_D + staged_D,
            hides_loads_D=own_D & self.persistent,
            most_blocks=1.0 if self.persistent else math.inf,
            fixed_s=self.fixed_s + np.where(splits_D > 1, c["launch_s"], 0.0),
            filled_D=filled_D / rows_D,
        )

    def rules(self, designs: Designs, chip: Chip) -> dict[str, NDArray[np.bool_]]:
        """Return, by reason, which designs cannot compute it (D)."""
        del chip
        return {
            f"steps deeper than the {BLOCK} elements that share a scale": (
                self.block_scaled & (designs["bk"] > BLOCK)
            ),
            "scaled partial sums, which the kernel does not split": (
                self.block_scaled & (designs.columns.get("splits", np.ones(len(designs))) > 1)
            ),
            "warps without an instruction of their own": (
                designs["warps"] * MMA_ROWS * 8 > designs["bm"] * designs["bn"]
            ),
        }


def row_tiles(product: Product, heights: Array) -> tuple[Array, float]:
    """Return the tiles of rows by height of a tile, and the groups that have rows.

    Routed rows are Poisson distributed over groups: the expectation of ceil(rows / height).

    Args:
        product: What is computed.
        heights: Rows of a tile (D).
    """
    mean = product.rows / product.groups
    if not product.routed:
        return product.groups * np.ceil(mean / heights), float(product.groups)
    most = int(mean + 10.0 * math.sqrt(mean) + SECTORS)
    rows = np.arange(most)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most)))])
    probability = np.exp(rows * math.log(mean) - mean - log_factorial)
    tiles = {
        height: product.groups * float(probability @ np.ceil(rows / height))
        for height in np.unique(heights)
    }
    return np.array([tiles[height] for height in heights]), product.groups * -math.expm1(-mean)


def asynchronous_mma(designs: Designs, chip: Chip) -> NDArray[np.bool_]:
    """Return which tiles have wgmma or tcgen05, which read shared memory by themselves (D).

    They need 64 rows and 4 warps; instructions of a warp have 16 rows.
    """
    if not chip.asynchronous_rows:
        return np.zeros(len(designs), bool)
    own_D: NDArray[np.bool_] = designs["bm"] >= chip.asynchronous_rows
    return own_D & (designs["warps"] >= WARPGROUP)


def _memory_bytes(
    product: Product, designs: Designs, chip: Chip, tiles_D: Array, active: float
) -> Array:
    """Return the bytes that miss L2: each operand once, or once for each wave of blocks (D).

    A wave covers a band of `group` tiles of rows and the columns that follow from it.
    """
    width = product.element_bytes
    weights = active * product.n * product.k * width
    inputs = product.rows * product.k * width
    outputs = product.rows * product.n * product.output_bytes
    once = weights + inputs + outputs
    if weights / max(active, 1.0) + inputs / max(active, 1.0) <= chip.l2_capacity_bytes / 2:
        return np.full(len(designs), once)
    high_D = np.ceil(product.rows / product.groups / designs["bm"])
    band_D = np.minimum(designs["group"], high_D)
    at_once_D = np.minimum(tiles_D, chip.sm_count)
    across_D = np.minimum(np.ceil(at_once_D / band_D), np.ceil(product.n / designs["bn"]))
    rows_D = np.minimum(at_once_D / across_D, high_D) * designs["bm"]
    each_D = (rows_D + across_D * designs["bn"]) * product.k * width
    waves_D = tiles_D / at_once_D
    return np.maximum(waves_D * each_D + outputs, once)
