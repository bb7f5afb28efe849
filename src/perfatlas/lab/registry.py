"""All calibration cells of a device, whichever file makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.lab.cells_gemm import gemm_cells
from perfatlas.lab.cells_moe import moe_cells
from perfatlas.measurements import silicon_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.lab.cells import Cell

CELL_MAKERS: dict[str, Callable[[str], tuple[Cell, ...]]] = {
    "gemm": gemm_cells,
    "moe": moe_cells,
}


def device_cells(device: str, operators: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return the calibration cells of a device.

    Args:
        device: Catalog name.
        operators: Operators wanted; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    silicon_root()
    cells = [cell for maker in CELL_MAKERS.values() for cell in maker(device)]
    return tuple(cell for cell in cells if not operators or cell.operator in operators)
