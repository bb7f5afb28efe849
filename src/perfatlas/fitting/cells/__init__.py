"""Calibration cells: measured rows, their physics model, one module per operator."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.fitting.cells.attention import KernelRule, prefill_grid
    from perfatlas.fitting.cells.cell import (
        FAMILIES, MEASURED_DEVICES, Cell, Range, Rows, exclusions,
    )
    from perfatlas.fitting.cells.collectives import OP_FORMATS, library_cell
    from perfatlas.fitting.cells.gemm import QUANTIZED_GRID, QUANTIZED_RANGES
    from perfatlas.fitting.cells.latent_attention import DECODE_GRID, PREFILL_GRID
    from perfatlas.fitting.cells.moe import (
        EXPERT_POLICIES, EXPERT_RANGES, earlier_moe_cells,
    )
    from perfatlas.fitting.cells.recurrent import GRIDS
    from perfatlas.fitting.cells.registry import cells_by_key, device_cells
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
