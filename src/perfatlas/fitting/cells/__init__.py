"""Calibration cells: measured rows, their physics model, one module per operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.fitting.cells.attention import (
        KernelRule as KernelRule,
        prefill_grid as prefill_grid,
    )
    from perfatlas.fitting.cells.cell import (
        FAMILIES as FAMILIES,
        MEASURED_DEVICES as MEASURED_DEVICES,
        Cell as Cell,
        Range as Range,
        Rows as Rows,
        exclusions as exclusions,
    )
    from perfatlas.fitting.cells.collectives import (
        OP_FORMATS as OP_FORMATS,
        library_cell as library_cell,
    )
    from perfatlas.fitting.cells.gemm import (
        QUANTIZED_GRID as QUANTIZED_GRID,
        QUANTIZED_RANGES as QUANTIZED_RANGES,
    )
    from perfatlas.fitting.cells.latent_attention import (
        DECODE_GRID as DECODE_GRID,
        PREFILL_GRID as PREFILL_GRID,
    )
    from perfatlas.fitting.cells.moe import earlier_moe_cells as earlier_moe_cells
    from perfatlas.fitting.cells.recurrent import GRIDS as GRIDS
    from perfatlas.fitting.cells.registry import (
        cells_by_key as cells_by_key,
        device_cells as device_cells,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
