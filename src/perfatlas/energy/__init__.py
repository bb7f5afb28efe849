"""Energy of operators and power of boards: joules per event, idle power, caps and clocks."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.energy.boards import (
        PowerColumns, board_energy, energy_data, lowest_clock, power_columns,
        power_interval, unreached_limit_note, voltage,
    )
    from perfatlas.energy.clock import (
        CappedClock, StepEnergy, capped_clock_ratio, energy_share, energy_width, locked_ratio,
        sustained_clock,
    )
    from perfatlas.energy.courses import (
        CRITICAL_HZ, CRITICAL_S, JobCourse, PowerCourse, critical_share, largest_ramp_w_per_s,
        running_periods,
    )
    from perfatlas.energy.operators import (
        NODE_COLUMNS, ZEROS, ZEROS_UNUSED, node_columns, node_note, node_parts, node_power,
        optics_note, switch_optics_w, with_energy,
    )
    from perfatlas.energy.smoothing import (
        SMOOTHED_S, Smoothing, check_smoothing, smoothed_power, smoothed_steps,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
