"""All calibration cells of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.lab.cells.attention import attention_cells
from perfatlas.lab.cells.collectives import collective_cells
from perfatlas.lab.cells.gemm import gemm_cells
from perfatlas.lab.cells.latent_attention import latent_attention_cells
from perfatlas.lab.cells.moe import moe_cells
from perfatlas.lab.cells.recurrent import recurrent_cells
from perfatlas.lab.cells.sparse_attention import (
    OPERATORS as SPARSE_OPERATORS,
    sparse_attention_cells,
)
from perfatlas.lab.cells.streaming import streaming_cells
from perfatlas.measurements.tables import silicon_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.lab.cells.cell import Cell

# Factories of the cells by operators; an empty tuple means all other operators.
CELL_MAKERS: Final[tuple[tuple[Callable[[str], tuple[Cell, ...]], tuple[str, ...]], ...]] = (
    (gemm_cells, ("gemm",)),
    (moe_cells, ("moe",)),
    (streaming_cells, ("streaming",)),
    (attention_cells, ("prefill_attention", "decode_attention")),
    (latent_attention_cells, ("mla_prefill", "mla_decode")),
    (sparse_attention_cells, SPARSE_OPERATORS),
    (recurrent_cells, ("scan_prefill", "scan_decode", "conv_prefill", "conv_decode")),
    (collective_cells, ()),
)


def device_cells(device: str, operators: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return the calibration cells of a device.

    Args:
        device: Catalog name.
        operators: Operators; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    silicon_root()
    cells = [
        cell
        for maker, made in CELL_MAKERS
        if not operators or not made or set(made) & set(operators)
        for cell in maker(device)
    ]
    return tuple(cell for cell in cells if not operators or cell.operator in operators)


def cells_by_key(
    devices: Sequence[str], operators: Sequence[str] = ()
) -> dict[tuple[str, str, str], dict[str, Cell]]:
    """Return (operator, family, format) -> device -> cell.

    Args:
        devices: Catalog names.
        operators: Operators; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    found: dict[tuple[str, str, str], dict[str, Cell]] = {}
    for device in devices:
        for cell in device_cells(device, operators):
            found.setdefault((cell.operator, cell.family, cell.format), {})[device] = cell
    return found
