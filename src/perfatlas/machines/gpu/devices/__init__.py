"""Silicon of devices, as columns that physics models read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices.silicon import (
        BANDWIDTH as BANDWIDTH,
        CLOCK as CLOCK,
        EXPONENTIALS as EXPONENTIALS,
        L2 as L2,
        NUM_SILICON as NUM_SILICON,
        PEAK as PEAK,
        SM_COUNT as SM_COUNT,
        SiliconRows as SiliconRows,
        silicon_row as silicon_row,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
