"""Demand of attention in Triton: prefill by tiles of queries, decode by parts of the keys.

Shape legend: D designs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.lab.tune import loop
from perfatlas.lab.tune.products import LANES, MMA_ROWS, WARPGROUP, asynchronous_mma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.designs import Designs
    from perfatlas.lab.tune.loop import Array

COPYING_REGISTERS: Final = 32  # of a thread that copies, where warps have roles
FP32_PER_SCORE: Final = 4.5  # scale and maximum, subtraction, sum, conversion, rescaled output


@dataclass(frozen=True, kw_only=True)
class AttentionPart:
    """Attention of one layer; in decode the queries of a group share a tile."""

    batch: int
    q_len: int
    kv_len: int
    heads: int
    kv_heads: int
    head_dim: int
    causal: bool
    element_bytes: float
    fixed_s: float

    @property
    def decode(self) -> bool:
        """Whether every sequence has one query."""
        return self.q_len == 1

    def demand(self, designs: Designs, chip: Chip) -> loop.Demand:
        """Return what designs ask of a chip.

        Source:
            FlashAttention-2 (arXiv 2307.08691): one pass over the keys of each tile of queries.

        Limits:
            Products and softmax of a block do not overlap without roles of warps; other blocks of
            the SM hide it. Halves of tensor memory are not counted.
        """
        c, width, dim = chip.loop, self.element_bytes, self.head_dim
        rows_D, columns_D = designs["bm"], designs["bn"]
        warps_D, stages_D = designs["warps"], designs["stages"]
        ones_D = np.ones(len(designs))
        splits_D = designs.columns.get("splits", ones_D)
        if self.decode:
            tiles_D = self.batch * self.kv_heads * splits_D
            keys_D = self.kv_len / splits_D
        else:
            high_D = np.ceil(self.q_len / rows_D)
            tiles_D = self.batch * self.heads * high_D
            seen = self.kv_len - self.q_len / 2 if self.causal else self.kv_len
            keys_D = seen + (rows_D / 2 if self.causal else 0.0 * ones_D)
        steps_D = np.ceil(np.maximum(keys_D, 1) / columns_D)
        # warps that multiply: of two groups on Hopper, where roles divide a block
        roles_D = designs.columns.get("roles", 0 * ones_D)
        own_D = asynchronous_mma(designs, chip)
        working_D = working_warps(designs, chip)
        rate_D = np.where(own_D, chip.mma_flop, chip.warp_mma_flop) * c["mma_efficiency"]
        scores_D = rows_D * columns_D
        mma_D = 4.0 * scores_D * dim / rate_D
        softmax_D = scores_D * (FP32_PER_SCORE / LANES + 1.0 / chip.exponentials)
        loaded_D = 2.0 * columns_D * dim * width
        by_warps_D = loaded_D * np.minimum(working_D, np.maximum(rows_D / MMA_ROWS, 1))
        # asynchronous instructions of 64 rows read keys and values each, and queries again
        by_groups_D = loaded_D * np.maximum(rows_D / 64, 1) + rows_D * dim * width
        shared_D = (loaded_D + np.where(own_D, by_groups_D, by_warps_D)) / LANES
        few_warps_D = 4 / np.minimum(warps_D, 4)
        power = c["overlap_power"]
        together_D = (mma_D**power + softmax_D**power) ** (1 / power)
        alone_D = np.where(roles_D > 0, together_D, mma_D + softmax_D)
        alone_D = alone_D + np.where(own_D, 0.0, shared_D / 2)
        needed_D = self._registers(designs, chip)
        rows = self.batch * self.heads * self.q_len
        memory = (2 * rows + 2 * self.batch * self.kv_heads * self.kv_len) * dim * width
        partial_D = np.where(splits_D > 1, 8.0 * splits_D * rows * dim, 0.0)
        buffers_D = np.where(own_D, stages_D, np.maximum(stages_D - 1, 1))
        return loop.Demand(
            tiles_D=tiles_D,
            steps_D=steps_D,
            unit_cycles_D={
                loop.TENSOR: mma_D,
                loop.SHARED: shared_D,
                loop.VECTOR: softmax_D,
                loop.L2: loaded_D / chip.l2_bytes,
            },
            chain_cycles_D=c["sync_cycles"] + c["warp_cycles"] * warps_D + alone_D * few_warps_D,
            ahead_D=np.minimum(stages_D - 1, 1) if self.decode else stages_D - 1,
            tile_cycles_D=c["tile_cycles"] * ones_D,
            store_bytes_D=rows_D * dim * width,
            memory_bytes_D=memory + partial_D / c["partial_rate"],
            threads_D=(working_D + np.where(roles_D > 0, WARPGROUP, 0)) * chip.lanes,
            registers_D=np.where(
                roles_D > 0,
                (needed_D * working_D + COPYING_REGISTERS * WARPGROUP) / (working_D + WARPGROUP),
                needed_D,
            ),
            # gathered pages are not staged further ahead; roles hand over queries and outputs
            shared_bytes_D=(1.0 if self.decode else buffers_D) * loaded_D
            + rows_D * dim * width * np.where(roles_D > 0, 2.0, 1.0),
            alternates=not self.decode,
            fixed_s=self.fixed_s + np.where(splits_D > 1, c["launch_s"], 0.0),
        )

    def _registers(self, designs: Designs, chip: Chip) -> Array:
        """Return the registers of a thread that multiplies: outputs, scores, their exponentials."""
        held_D = designs["bm"] * (self.head_dim + 1.5 * designs["bn"])
        return 52 + held_D / (chip.lanes * working_warps(designs, chip))

    def rules(self, designs: Designs, chip: Chip) -> dict[str, NDArray[np.bool_]]:
        """Return, by reason, which designs cannot compute it (D)."""
        if self.decode:
            parts_D = np.ceil(self.kv_len / designs["splits"])
            return {
                "fewer rows than the queries that share keys": (
                    designs["bm"] < self.heads / self.kv_heads
                ),
                "parts shorter than a block of keys": parts_D < designs["bn"],
            }
        return {
            f"spills: more than {chip.thread_registers} registers of a thread that multiplies": (
                self._registers(designs, chip) > chip.thread_registers
            ),
            "fewer than 16 rows for each warp": (
                designs["bm"] < MMA_ROWS * working_warps(designs, chip)
            ),
        }


def working_warps(designs: Designs, chip: Chip) -> Array:
    """Return the warps that multiply (D): roles of Hopper are two groups of the warps asked for."""
    warps_D = designs["warps"]
    roles_D = designs.columns.get("roles", np.zeros(len(designs)))
    two_D = (roles_D > 0) & (chip.asynchronous_rows > 0) & (chip.tensor_memory_columns == 0)
    return np.where(two_D, 2 * warps_D, warps_D)
