"""Calibration cells: measured rows, the physics that explains them, a module per operator."""

from __future__ import annotations

from perfatlas.lab.cells.attention import KernelRule, prefill_grid
from perfatlas.lab.cells.cell import FAMILIES, MEASURED_DEVICES, Cell, Range, Rows, exclusions
from perfatlas.lab.cells.collectives import OP_FORMATS, library_cell
from perfatlas.lab.cells.gemm import QUANTIZED_GRID, QUANTIZED_RANGES
from perfatlas.lab.cells.latent_attention import DECODE_GRID, PREFILL_GRID
from perfatlas.lab.cells.recurrent import GRIDS
from perfatlas.lab.cells.registry import cells_by_key, device_cells

__all__ = [
    "DECODE_GRID",
    "FAMILIES",
    "GRIDS",
    "MEASURED_DEVICES",
    "OP_FORMATS",
    "PREFILL_GRID",
    "QUANTIZED_GRID",
    "QUANTIZED_RANGES",
    "Cell",
    "KernelRule",
    "Range",
    "Rows",
    "cells_by_key",
    "device_cells",
    "exclusions",
    "library_cell",
    "prefill_grid",
]
