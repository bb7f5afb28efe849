"""What a device draws: energies of its events, power without kernels, limits, voltage curve.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.machines import issuing_units
from perfatlas.measurements.calibrations import find_calibration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray

FORMATS: Final = ("bf16", "fp8", "fp4")
LABELS: Final = {"bf16": "bf16", "fp8": "fp8", "fp4": "fp4", "sram": "on-chip bytes"}
COMPARED: Final = ("bf16", "fp8", "sram")  # equal in generations whose clocks compare
PEAK: Final = "bf16"  # by which devices are compared
KEPT: Final = 256  # devices, of which a study of changed hardware has many


Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class _BoardPower(Generic[Value]):
    """Power and clocks: numbers of one device, or columns for that of each candidate (C,)."""

    idle_w: Value  # Without a context [W]
    on_w: Value  # With a context and full clocks, but without kernels [W]
    cap_w: Value  # Board power limit [W]; at most `calibrated_w` where kernels were measured
    # Limit that decides clocks [W]: `cap_w`, but of a device that borrows kernels no less than
    # reading its memory at full bandwidth takes
    clock_limit_w: Value
    calibrated_w: Value  # Limit at which the kernels were measured, its own or the lender's [W]
    compute_size: Value  # Peak over that of the lender
    memory_size: Value  # Memory bandwidth over that of the lender
    # Relative loss of voltage per relative loss of clock, and its 90% interval
    voltage_slope: Value
    voltage_slope_low: Value
    voltage_slope_high: Value
    voltage_floor: Value  # Lowest voltage over that of the highest clock, and its 90% interval
    voltage_floor_low: Value
    voltage_floor_high: Value
    peak_clock: Value  # Clock of the datasheet's peak over the highest
    highest_clock: Value  # Clock over the highest that tensor cores sustain without a limit
    low: Value  # 5% quantile of measured over predicted power
    high: Value  # 95% quantile of measured over predicted power


@dataclass(frozen=True, kw_only=True)
class BoardEnergy(_BoardPower[float]):
    """Energies of the events on one device, and the power it draws without them."""

    flop_j: Mapping[str, float]  # One FLOP by key of `Device.peak_flop_per_s`, at full voltage [J]
    sram_j_per_byte: float  # Between last-level cache and SM, at full voltage [J/byte]
    memory_j_per_byte: float  # To or from device memory [J/byte]
    link_j_per_byte: float  # Sent over scale-up links [J/byte]
    issue_w: float  # All SMs issuing without pause, at full voltage [W]
    lender: str = ""  # Device of equal energies whose kernels it borrows
    notes: tuple[str, ...]  # What is fitted, derived or assumed, or why there are no energies
    sources: tuple[str, ...] = ()  # Sources of the energies that are not assumed


def board_energy(device: Device) -> BoardEnergy:
    """Return the energies of a device; NaN, but for idle power and limits, for unknown generations.

    Dynamic energies and the power of an awake board are multiplied by the scale that was fitted to
    measured watts of the device, if there is one.

    Source: data/energy/energies.toml and boards.toml, one source per value.
    Limits: One voltage curve per generation, inferred or assumed; temperature is not modelled.

    Example:
        >>> from perfatlas.energy import board_energy
        >>> from perfatlas.hardware import resolve_system
        >>> board = board_energy(resolve_system("h100_sxm").device)
        >>> board.idle_w, board.cap_w
        (70.0, 700.0)
    """
    match = find_calibration(device, "gemm", "", PEAK)
    lender = device.name if match is None else match.calibration.device
    row = _generation(device)
    other = None if lender == device.name else _generation(resolve_system(lender).device)
    # clocks compare between generations of equal energies alone: most energies are assumed
    compares = row and other and all(row[e]["value"] == other[e]["value"] for e in COMPARED)
    measured = match is not None and lender == device.name
    return _board(device, lender if compares else "", measured=measured)


def _generation(device: Device) -> Mapping[str, Any] | None:
    row: Mapping[str, Any] | None = energy_data()["generation"].get(_generation_name(device))
    return row


def _generation_name(device: Device) -> str:
    return str(energy_data()["generation_of"].get(device.name, device.architecture))


@lru_cache(maxsize=KEPT)
def _board(device: Device, lender: str, *, measured: bool) -> BoardEnergy:
    generation, data = _generation(device), energy_data()
    limit_w = min(device.tdp_w, device.calibrated_tdp_w)
    if generation is None:
        return _unpredicted(device, data)
    fitted = shipped_table("data/energy/boards.toml").get(device.name, {})
    scale = fitted.get("scale", 1.0)
    memory = data["memory"][data["memory_of"].get(device.name) or generation["memory"]]
    link = data["link"].get(device.scale_up.link_type, data["link"]["other"])
    flop_j = {name: scale * generation[name]["value"] for name in FORMATS}
    flop_j |= {name: row["value"] * flop_j[row["nearest"]] for name, row in data["format"].items()}
    sram_j, memory_j = scale * generation["sram"]["value"], scale * memory["value"]
    if device.dies > 1:  # memory is spread evenly over the dies
        memory_j += (1.0 - 1.0 / device.dies) * device.number("die_to_die_j_per_byte")
    awake_w = fitted.get("awake_w", generation["awake"]["value"] * device.calibrated_tdp_w)
    on_w = min(device.idle_w + awake_w, device.tdp_w)
    low, high = fitted.get("interval") or (
        sum(generation[name][end] / generation[name]["value"] for name in COMPARED) / len(COMPARED)
        for end in ("low", "high")
    )
    borrowed: dict[str, float] = {}
    if lender:
        other = resolve_system(lender).device
        ours, theirs = device.peak_flop_per_s, other.peak_flop_per_s
        borrowed = {
            "cap_w": device.tdp_w,
            "clock_limit_w": max(
                device.tdp_w, on_w + device.memory_bandwidth * (sram_j + memory_j)
            ),
            "calibrated_w": other.calibrated_tdp_w,
            "compute_size": ours[PEAK] / theirs[PEAK] if PEAK in ours and PEAK in theirs else 1.0,
            "memory_size": device.memory_bandwidth / other.memory_bandwidth,
        }
    cap_w = limit_w if measured else device.tdp_w
    own = {"cap_w": cap_w, "clock_limit_w": limit_w, "calibrated_w": device.calibrated_tdp_w}
    return BoardEnergy(
        flop_j=flop_j,
        sram_j_per_byte=sram_j,
        memory_j_per_byte=memory_j,
        link_j_per_byte=scale * link["value"],
        issue_w=scale * generation["issue"]["value"] * issuing_units(device),
        **_interval("voltage_slope", generation),
        **_interval("voltage_floor", generation),
        peak_clock=device.peak_clock_hz / device.boost_clock_hz,
        highest_clock=generation["highest_clock"]["value"],
        idle_w=device.idle_w,
        on_w=on_w,
        **own | {"compute_size": 1.0, "memory_size": 1.0} | borrowed,
        lender=lender,
        low=low,
        high=high,
        notes=(_note(device, generation, fitted),),
        sources=_sources(generation),
    )


def _unpredicted(device: Device, data: Mapping[str, Any]) -> BoardEnergy:
    names = ", ".join(n for n in data["generation"] if n not in data["generation_of"].values())
    note = (
        f"power of {device.name} is not predicted: no energies are known of {device.architecture}"
        f" (known: {names})"
    )
    values: dict[str, Any] = {
        f.name: math.nan for f in fields(BoardEnergy) if f.type in ("Value", "float")
    }
    values |= {"flop_j": dict.fromkeys((*FORMATS, *data["format"]), math.nan), "notes": (note,)}
    values |= {"idle_w": device.idle_w, "cap_w": device.tdp_w, "clock_limit_w": device.tdp_w}
    values |= {"calibrated_w": device.calibrated_tdp_w, "compute_size": 1.0, "memory_size": 1.0}
    return BoardEnergy(**values)


def _interval(name: str, generation: Mapping[str, Any]) -> dict[str, float]:
    value, low, high = (generation[name][end] for end in ("value", "low", "high"))
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _note(device: Device, generation: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    by_kind: dict[str, list[str]] = {}
    for name, label in LABELS.items():
        by_kind.setdefault(generation[name]["kind"], []).append(label)
    kinds = ", ".join(f"{' and '.join(names)} {kind}" for kind, names in by_kind.items())
    compared = fitted.get("note", "never compared with measured watts of this device")
    name = _generation_name(device)
    derived = energy_data()["derived"].get(name)
    like = f" (like {derived['like']}; {derived['ref']})" if derived else ""
    return f"power of {device.name}: energies of {name}{like}: {kinds}; {compared}"


def _sources(row: Mapping[str, Any]) -> tuple[str, ...]:
    cited = (v["ref"] for v in row.values() if isinstance(v, dict) and v["kind"] != "assumed")
    return tuple(dict.fromkeys(f"energies: {ref}" for ref in cited))


def lowest_clock() -> float:
    """Return the lowest clock of devices over their sustained clock."""
    return float(energy_data()["clock"]["lowest"]["value"])


@cache
def energy_data() -> dict[str, Any]:
    """Return the shipped energies, each with its interval and source."""
    data = shipped_table("data/energy/energies.toml")
    derived = {name: _derived(row, data) for name, row in data["derived"].items()}
    return data | {"generation": data["generation"] | derived}


def _derived(row: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the energies of a generation that are those of another one times a factor."""
    like = data["generation"][row["like"]]
    factors = dict.fromkeys((*FORMATS, "issue"), row["flop"]) | {"sram": row["sram"]}
    found: dict[str, Any] = {"memory": row["memory"]}
    for name, value in like.items():
        if name == "memory":
            continue
        factor, spread = factors.get(name, 1.0), row["spread"] if name in factors else 1.0
        ends = (("value", 1.0), ("low", 1.0 / spread), ("high", spread))
        scaled = {end: value[end] * factor * wider for end, wider in ends}
        kind, ref = "derived", f"derived: {factor:g} times {row['like']}: {row['ref']}"
        if name not in factors:
            kind, ref = "assumed", f"assumed: as {row['like']}, without measured watts"
        found[name] = scaled | {"kind": kind, "ref": ref}
    return found


@dataclass(frozen=True, kw_only=True)
class PowerColumns(_BoardPower["FloatArray"]):
    """The power of the device of each candidate; `on_w` is at a clock that a user locks."""

    sustained_on_w: FloatArray  # At the highest clock (C,) [W]

    def voltage_curves(self) -> tuple[PowerColumns, PowerColumns]:
        """Return the power with the steepest and with the flattest voltage curve."""
        slopes = (self.voltage_slope_high, self.voltage_slope_low)
        floors = (self.voltage_floor_low, self.voltage_floor_high)
        steep, flat = (
            replace(self, voltage_slope=slope, voltage_floor=floor)
            for slope, floor in zip(slopes, floors, strict=True)
        )
        return steep, flat

    def on_at(self, ratio: FloatArray) -> FloatArray:
        """Return the power of boards without kernels at clocks over the highest (..., C) [W].

        What a board draws beyond its idle power is that of running clocks, f V^2; above the highest
        clock it stays that of the highest.

        Source: idle power at 345 MHz and that at the highest clock are measured
            (data/energy/boards.toml), none between.

        Example:
            >>> import numpy as np
            >>> from perfatlas.energy import power_columns
            >>> from perfatlas.hardware import resolve_system
            >>> from perfatlas.machines import DeviceColumns
            >>> h100 = resolve_system("h100_sxm").device
            >>> power = power_columns(DeviceColumns(devices=(h100,), index_C=np.array([0])))
            >>> power.on_at(np.array([1.2, 1.0, 0.5])).round(1).tolist()
            [122.2, 122.2, 81.1]
        """
        clock = np.minimum(ratio, 1.0)
        relative = voltage(clock, self.voltage_slope, self.voltage_floor)
        on_w: FloatArray = self.idle_w + (self.sustained_on_w - self.idle_w) * clock * relative**2
        return on_w

    def saved_w(self, ratio: FloatArray) -> FloatArray:
        """Return by how much `on_w` exceeds the power without kernels at clocks (..., C) [W]."""
        saved: FloatArray = np.maximum(self.on_w - self.on_at(ratio), 0.0)
        return saved

    def limited_j(self, energy_j: FloatArray, time_s: FloatArray) -> FloatArray:
        """Return the dynamic energy [J] that fits under the cap in a time [s] (C,).

        A device above its cap lowers its clock within tens of milliseconds, longer than operators
        and shorter than steps, so the cap limits the mean of a step. Times were measured on
        devices that do so.
        """
        limited: FloatArray = np.minimum(energy_j, (self.cap_w - self.on_w) * time_s)
        return limited

    def mean_w(self, energy_j: FloatArray, time_s: FloatArray) -> FloatArray:
        """Return the mean power while a dynamic energy is spent, on without time (C,) [W]."""
        spent_j = self.limited_j(energy_j, time_s)
        return self.on_w + spent_j / np.maximum(time_s, np.finfo(np.float64).tiny)


def power_columns(
    devices: DeviceColumns, limit_w_C: FloatArray | None = None, locked_C: FloatArray | None = None
) -> PowerColumns:
    """Return the power of the device of each candidate.

    A locked clock holds between kernels too (`on_at`); that of a limit, in steps above it.

    Args:
        limit_w_C: Power limit that a user sets, below that of the device (C,) [W].
        locked_C: Clock that a user locks over the highest (C,); 1 locks none.
    """
    boards = [board_energy(device) for device in devices.devices]
    power_w = {
        f.name: np.array([getattr(board, f.name) for board in boards])[devices.index_C]
        for f in fields(_BoardPower)
    }
    if limit_w_C is not None:
        power_w |= {
            name: np.minimum(power_w[name], limit_w_C) for name in ("cap_w", "clock_limit_w")
        }
    power = PowerColumns(**power_w, sustained_on_w=power_w["on_w"])
    return power if locked_C is None else replace(power, on_w=power.on_at(locked_C))


def voltage(ratio: FloatArray, slope: FloatArray, floor: FloatArray) -> FloatArray:
    """Return the voltage over that of the highest clock, at a clock over the highest.

    Source: a line with a floor, inferred from the energy of a FLOP on an H100 between 1.49 and
        1.98 GHz (data/energy/energies.toml); no vendor publishes the points.

    Example:
        >>> import numpy as np
        >>> from perfatlas.energy import voltage
        >>> voltage(np.array([1.2, 1.0, 0.5, 0.1]), np.array(0.8), np.array(0.55)).tolist()
        [1.0, 1.0, 0.6, 0.55]
    """
    relative: FloatArray = np.maximum(1.0 - slope * (1.0 - np.minimum(ratio, 1.0)), floor)
    return relative


def power_interval(
    low: FloatArray, high: FloatArray, voltage_width: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of a power, relative to it, below the highest voltage.

    Errors of energies and of voltages are independent: half-widths of ln add in quadrature.

    Args:
        low: 5% quantile of measured over predicted power, at the clock of the measurements.
        high: 95% quantile, likewise.
        voltage_width: Half-width of ln(power) by the voltage curve, 0 at the sustained clock.

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


def unreached_limit_note(
    device: str, limit_w: float, cap_w: float, *, by_node: bool = False
) -> str:
    """Return the remark on a power limit, of a user or of a node, above what a device draws."""
    limit = f"power_cap_w = {limit_w:g} W has no effect here:"
    if by_node:
        limit = f"node_power_cap_w has no effect here: it leaves {limit_w:.0f} W to each GPU, and"
    return f"{limit} {device} draws at most its TDP, {cap_w:g} W"
