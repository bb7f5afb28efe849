"""Energy of operators and power of boards: joules per event, idle power, caps and clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.energy.boards import (
        PowerColumns as PowerColumns,
        board_energy as board_energy,
        energy_data as energy_data,
        idle_power_remarks as idle_power_remarks,
        lowest_clock as lowest_clock,
        power_columns as power_columns,
        power_interval as power_interval,
        unreached_limit_note as unreached_limit_note,
        voltage as voltage,
    )
    from perfatlas.energy.clock import (
        CappedClock as CappedClock,
        StepEnergy as StepEnergy,
        capped_clock_ratio as capped_clock_ratio,
        energy_share as energy_share,
        energy_width as energy_width,
        locked_ratio as locked_ratio,
        sustained_clock as sustained_clock,
    )
    from perfatlas.energy.operators import (
        NODE_COLUMNS as NODE_COLUMNS,
        ZEROS as ZEROS,
        ZEROS_UNUSED as ZEROS_UNUSED,
        node_columns as node_columns,
        node_power as node_power,
        with_energy as with_energy,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
