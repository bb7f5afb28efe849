"""Demand of kernels without products: norms of rows, and sums over ranks.

Shape legend: D designs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.lab.tune import loop
from perfatlas.lab.tune.products import LANES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.lab.tune.chip import Chip
    from perfatlas.lab.tune.designs import Designs

WIDTH: Final = 2.0  # bytes of an element
NORM_FP32: Final = 8.0  # operations of an element: two sums, square, scale, weight, conversions


@dataclass(frozen=True, kw_only=True)
class NormPart:
    """RMSNorm of rows with a residual: two tensors are read, two written."""

    tokens: int
    width: int
    fixed_s: float

    def demand(self, designs: Designs, chip: Chip) -> loop.Demand:
        """Return what designs ask of a chip."""
        rows_D, warps_D = designs["bm"], designs["warps"]
        elements_D = rows_D * 2.0 ** np.ceil(np.log2(self.width))
        read_D = 2.0 * rows_D * self.width * WIDTH
        threads_D = warps_D * chip.lanes
        ones_D = np.ones(len(designs))
        return loop.Demand(
            tiles_D=np.ceil(self.tokens / rows_D),
            steps_D=ones_D,
            unit_cycles_D={
                loop.TENSOR: 0 * ones_D,
                loop.SHARED: 0 * ones_D,
                loop.VECTOR: elements_D * NORM_FP32 / LANES,
                loop.L2: read_D / chip.l2_bytes,
            },
            chain_cycles_D=elements_D * NORM_FP32 / threads_D
            + chip.loop["sync_cycles"] * np.log2(np.maximum(warps_D, 2)),
            ahead_D=ones_D,
            tile_cycles_D=chip.loop["block_cycles"] * ones_D,
            store_bytes_D=read_D,
            memory_bytes_D=(4.0 * self.tokens + 1) * self.width * WIDTH * ones_D,
            threads_D=threads_D,
            registers_D=24 + 2.0 * elements_D / threads_D,
            shared_bytes_D=16 * warps_D,
            fixed_s=self.fixed_s,
        )

    def rules(self, designs: Designs, chip: Chip) -> dict[str, NDArray[np.bool_]]:
        """Return, by reason, which designs cannot compute it (D)."""
        del chip
        return {"more rows than there are": designs["bm"] >= 2 * self.tokens}


@dataclass(frozen=True, kw_only=True)
class ReducePart:
    """Sum over the ranks of a node, the residual and RMSNorm: each rank reads all others."""

    tokens: int
    width: int
    ranks: int
    link_bytes_per_s: float  # of a rank, in each direction
    link_latency_s: float
    fixed_s: float

    def demand(self, designs: Designs, chip: Chip) -> loop.Demand:
        """Return what designs ask of a chip and its links; a step is a row.

        Source:
            Little's law: rows in flight of all blocks over the latency of a link, which a load
            crosses twice, as do the flags before and after.
        """
        programs_D, warps_D = designs["programs"], designs["warps"]
        others, row = self.ranks - 1, self.width * WIDTH
        elements = 2.0 ** np.ceil(np.log2(self.width))
        threads_D, ones_D = warps_D * chip.lanes, np.ones(len(designs))
        used_D = np.minimum(programs_D, self.tokens)
        rate_D = np.minimum(
            self.link_bytes_per_s, used_D * row * others / (2.0 * self.link_latency_s)
        )
        return loop.Demand(
            tiles_D=used_D,
            steps_D=np.ceil(self.tokens / programs_D),
            unit_cycles_D={
                loop.TENSOR: 0 * ones_D,
                loop.SHARED: 0 * ones_D,
                loop.VECTOR: elements * (NORM_FP32 + 2.0 * others) / LANES * ones_D,
                loop.L2: 2.0 * row / chip.l2_bytes * ones_D,
            },
            chain_cycles_D=elements * (NORM_FP32 + 2.0 * others) / threads_D
            + chip.loop["sync_cycles"] * np.log2(np.maximum(warps_D, 2)),
            ahead_D=ones_D,
            tile_cycles_D=chip.loop["block_cycles"] * ones_D,
            store_bytes_D=2.0 * row * ones_D,
            memory_bytes_D=4.0 * self.tokens * row * ones_D,
            threads_D=threads_D,
            registers_D=24 + 3.0 * elements / threads_D,
            shared_bytes_D=16 * warps_D,
            links_s_D=others * self.tokens * row / rate_D,
            fixed_s=self.fixed_s + 4.0 * self.link_latency_s,
        )

    def rules(self, designs: Designs, chip: Chip) -> dict[str, NDArray[np.bool_]]:
        """Return, by reason, which designs cannot compute it (D)."""
        return {
            "blocks that wait for each other but do not run at once": (
                designs["programs"] > chip.sm_count
            ),
            "blocks without a row": designs["programs"] >= 2 * self.tokens,
        }
