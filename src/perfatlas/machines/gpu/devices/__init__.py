"""Silicon of devices, as columns that physics models read."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices.silicon import (
        BANDWIDTH, CLOCK, EXPONENTIALS, L2, NUM_SILICON, PEAK, SM_COUNT, SiliconRows, silicon_row,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
