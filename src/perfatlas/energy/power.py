"""Power of boards: what steps draw, limited by the cap.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.energy.boards import board_energy
from perfatlas.energy.operators import voltage

if TYPE_CHECKING:
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray


@dataclass(frozen=True, kw_only=True)
class PowerColumns:
    """Power of the device of each candidate, all (C,)."""

    idle_w: FloatArray  # Without a context [W]
    # With a context at the highest clock, or at one that a user locks, but without kernels [W]
    on_w: FloatArray
    sustained_on_w: FloatArray  # The same at the highest clock [W]
    cap_w: FloatArray  # Limit [W]
    clock_limit_w: FloatArray  # Limit that decides clocks [W]
    calibrated_w: FloatArray  # Limit of the devices on which kernels were measured [W]
    compute_size: FloatArray  # Peak over that of those devices
    memory_size: FloatArray  # Memory bandwidth over that of those devices
    voltage_slope: FloatArray  # Relative loss of voltage per relative loss of clock
    voltage_floor: FloatArray  # Lowest voltage relative to that of the highest clock
    voltage_slope_low: FloatArray  # Lower end of its 90% interval
    voltage_slope_high: FloatArray  # Upper end
    voltage_floor_low: FloatArray  # Lower end of that of the floor
    voltage_floor_high: FloatArray  # Upper end
    peak_clock: FloatArray  # Clock of the datasheet's peak over the highest
    # Clock over the highest that tensor cores sustain when power does not limit
    highest_clock: FloatArray
    low: FloatArray  # 5% quantile of measured over predicted power
    high: FloatArray  # 95% quantile of measured over predicted power

    def voltage_curves(self) -> tuple[PowerColumns, PowerColumns]:
        """Return the power with the steepest and with the flattest voltage curve."""
        steep = replace(
            self, voltage_slope=self.voltage_slope_high, voltage_floor=self.voltage_floor_low
        )
        flat = replace(
            self, voltage_slope=self.voltage_slope_low, voltage_floor=self.voltage_floor_high
        )
        return steep, flat

    def on_at(self, ratio: FloatArray) -> FloatArray:
        """Return the power of boards without kernels at clocks over the highest (..., C) [W].

        What a board draws beyond its idle power is that of running clocks, in proportion to the
        clock and the squared voltage; above the highest clock it stays that of the highest.

        Args:
            ratio: Clocks over the highest, or over a sustained one.

        Source: dynamic power of a clock network, f V^2; idle power at 345 MHz and that at the
            highest clock are measured (data/energy/boards.toml), none between.

        Example:
            >>> import numpy as np
            >>> from perfatlas.energy import power_columns
            >>> from perfatlas.hardware import resolve_system
            >>> from perfatlas.machines import DeviceColumns
            >>> h100 = DeviceColumns(
            ...     devices=(resolve_system("h100_sxm").device,), index_C=np.array([0])
            ... )
            >>> power_columns(h100).on_at(np.array([1.2, 1.0, 0.5])).round(1).tolist()
            [122.2, 122.2, 81.1]
        """
        clock = np.minimum(ratio, 1.0)
        relative = voltage(clock, self.voltage_slope, self.voltage_floor)
        on_w: FloatArray = self.idle_w + (self.sustained_on_w - self.idle_w) * clock * relative**2
        return on_w

    def saved_w(self, ratio: FloatArray) -> FloatArray:
        """Return by how much `on_w` exceeds the power without kernels at clocks (..., C) [W].

        Args:
            ratio: Clocks of steps over the sustained clock.
        """
        saved: FloatArray = np.maximum(self.on_w - self.on_at(ratio), 0.0)
        return saved

    def limited_j(self, energy_j: FloatArray, time_s: FloatArray) -> FloatArray:
        """Return the dynamic energy that fits under the cap (C,) [J].

        A device above its cap lowers its clock within tens of milliseconds, longer than operators
        and shorter than steps, so the cap limits the mean of a step. Times were measured on
        devices that do so.

        Args:
            energy_j: Dynamic energy (C,) [J].
            time_s: Time in which it is spent (C,) [s].
        """
        limited: FloatArray = np.minimum(energy_j, (self.cap_w - self.on_w) * time_s)
        return limited

    def mean_w(self, energy_j: FloatArray, time_s: FloatArray) -> FloatArray:
        """Return the mean power while a dynamic energy is spent (C,) [W].

        Args:
            energy_j: Dynamic energy (C,) [J].
            time_s: Time in which it is spent (C,) [s]; without time, a device is on.

        Example:
            >>> import numpy as np
            >>> from perfatlas.energy import power_columns
            >>> from perfatlas.hardware import resolve_system
            >>> from perfatlas.machines import DeviceColumns
            >>> h100 = DeviceColumns(
            ...     devices=(resolve_system("h100_sxm").device,), index_C=np.array([0, 0])
            ... )
            >>> power = power_columns(h100)
            >>> power.mean_w(np.array([0.0, 1e3]), np.array([1.0, 1.0])).round(1).tolist()
            [122.2, 700.0]
        """
        spent_j = self.limited_j(energy_j, time_s)
        return self.on_w + spent_j / np.maximum(time_s, np.finfo(np.float64).tiny)


def power_interval(
    low: FloatArray, high: FloatArray, voltage_width: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of a power, relative to it, below the highest voltage.

    What is known of energies and what is known of voltages are independent: their half-widths in
    the logarithm add in quadrature.

    Args:
        low: 5% quantile of measured over predicted power, at the clock of the measurements.
        high: 95% quantile, likewise.
        voltage_width: Half-width of ln(power) that the interval of the voltage curve leaves, 0 at
            the sustained clock.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import power_interval
        >>> ends = power_interval(np.array(0.8), np.array(1.4), np.array(0.2))
        >>> [round(float(end), 3) for end in ends]
        [0.741, 1.479]
    """
    lower, upper = (np.exp(np.hypot(np.log(end), voltage_width)) for end in (low, high))
    widened = voltage_width > 0.0
    return np.where(widened, 1.0 / lower, low), np.where(widened, upper, high)


def power_columns(
    devices: DeviceColumns,
    limit_w_C: FloatArray | None = None,
    locked_C: FloatArray | None = None,
) -> PowerColumns:
    """Return the power of the device of each candidate.

    A locked clock holds between kernels too (`PowerColumns.on_at`); that of a limit holds in the
    steps that exceed it.

    Args:
        limit_w_C: Power limit that a user sets (C,) [W], None for none; it acts below that of the
            device.
        locked_C: Clock that a user locks over the highest (C,); 1 locks none, None for none.
    """
    boards = [board_energy(device) for device in devices.devices]
    found = {
        name: np.array([getattr(board, name) for board in boards])[devices.index_C]
        for name in PowerColumns.__dataclass_fields__
        if name != "sustained_on_w"
    }
    found["sustained_on_w"] = found["on_w"]
    if limit_w_C is not None:
        for name in ("cap_w", "clock_limit_w"):
            found[name] = np.minimum(found[name], limit_w_C)
    power = PowerColumns(**found)
    return power if locked_C is None else replace(power, on_w=power.on_at(locked_C))


def unreached_limit_note(
    device: str, limit_w: float, cap_w: float, *, by_node: bool = False
) -> str:
    """Return the remark on a power limit above what a device draws.

    Args:
        limit_w: Power limit that a user sets, or that the limit of a node leaves to a GPU [W].
        cap_w: Power limit of the device, its TDP [W].

    Example:
        >>> from perfatlas.energy import unreached_limit_note
        >>> unreached_limit_note("l4", 100.0, 72.0)
        'power_cap_w = 100 W has no effect here: l4 draws at most its TDP, 72 W'
    """
    why = f"{device} draws at most its TDP, {cap_w:g} W"
    if by_node:
        return (
            f"node_power_cap_w has no effect here: it leaves {limit_w:.0f} W to each GPU, and {why}"
        )
    return f"power_cap_w = {limit_w:g} W has no effect here: {why}"


def idle_power_remarks(power_w: float | None, idle_w: float | None) -> list[str]:
    """Return a warning if the power of a waiting GPU is above that of one that computes.

    Args:
        power_w: Power while a job computes [W], None if not given.
        idle_w: Power while it waits [W], likewise.

    Example:
        >>> from perfatlas.energy import idle_power_remarks
        >>> idle_power_remarks(620.0, 90.0), len(idle_power_remarks(90.0, 620.0))
        ([], 1)
    """
    if power_w is None or idle_w is None or idle_w <= power_w:
        return []
    above = f"idle_power_w = {idle_w:g} W is above power_w = {power_w:g} W"
    return [f"{above}: GPUs that wait draw more than GPUs that compute"]
