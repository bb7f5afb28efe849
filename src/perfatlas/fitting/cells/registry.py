"""All calibration cells of a device; modules beside this one that make cells are listed."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from perfatlas.measurements.tables import silicon_root

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.fitting.cells.cell import Cell, CellMaker


@cache
def cell_makers() -> tuple[CellMaker, ...]:
    """Return the row `MAKER` of each module beside this one that has one, by their places."""
    package = __name__.rpartition(".")[0]
    names = [
        module.name for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    modules = [
        importlib.import_module(f"{package}.{name}")
        for name in names
        if f"{package}.{name}" != __name__
    ]
    made: list[CellMaker] = [module.MAKER for module in modules if hasattr(module, "MAKER")]
    return tuple(sorted(made, key=lambda maker: maker.place))


def device_cells(device: str, operators: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return the calibration cells of a device.

    Args:
        operators: Operators; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    silicon_root()
    cells = [
        cell
        for maker in cell_makers()
        if not operators or not maker.operators or set(maker.operators) & set(operators)
        for cell in maker.make(device)
    ]
    return tuple(cell for cell in cells if not operators or cell.operator in operators)


def cells_by_key(
    devices: Sequence[str], operators: Sequence[str] = ()
) -> dict[tuple[str, str, str], dict[str, Cell]]:
    """Return (operator, family, format) -> device -> cell.

    Args:
        operators: Operators; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    cells: dict[tuple[str, str, str], dict[str, Cell]] = {}
    for device in devices:
        for cell in device_cells(device, operators):
            cells.setdefault((cell.operator, cell.family, cell.format), {})[device] = cell
    return cells
