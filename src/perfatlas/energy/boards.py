"""Energies and powers of a device, from its generation, memory and links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.machines import issuing_units
from perfatlas.measurements.calibrations import find_calibration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device

ENERGIES: Final = "data/energy/energies.toml"
BOARDS: Final = "data/energy/boards.toml"
OTHER_LINKS: Final = "other"  # links
KEPT: Final = 256  # devices, of which a study of changed hardware has many
PEAK: Final = "bf16"  # by which devices are compared
FORMATS: Final = ("bf16", "fp8", "fp4")
LABELS: Final = {"bf16": "bf16", "fp8": "fp8", "fp4": "fp4", "sram": "on-chip bytes"}
SPREADING: Final = ("bf16", "fp8", "sram")  # values whose intervals spread the power


@dataclass(frozen=True, kw_only=True)
class BoardEnergy:
    """Energies of the events on one device, and the power it draws without them."""

    # Energy of one FLOP by key of `Device.peak_flop_per_s`, at full voltage [J]
    flop_j: Mapping[str, float]
    sram_j_per_byte: float  # Between last-level cache and SM, at full voltage [J/byte]
    memory_j_per_byte: float  # To or from device memory [J/byte]
    link_j_per_byte: float  # Sent over scale-up links [J/byte]
    issue_w: float  # All SMs issuing without pause, at full voltage [W]
    voltage_slope: float  # Relative loss of voltage per relative loss of clock
    voltage_floor: float  # Lowest voltage relative to that of the highest clock
    voltage_slope_low: float  # Lower end of its 90% interval
    voltage_slope_high: float  # Upper end
    voltage_floor_low: float  # Lower end of that of the floor
    voltage_floor_high: float  # Upper end
    peak_clock: float  # Clock of the datasheet's peak over the highest
    # Clock over the highest that tensor cores sustain when power does not limit
    highest_clock: float
    idle_w: float  # Without a context [W]
    on_w: float  # With a context and full clocks, but without kernels [W]
    cap_w: float  # Board power limit [W]; at most `calibrated_w` where kernels were measured
    # Power limit that decides clocks [W]: `cap_w`, but of a device that borrows kernels no less
    # than reading its memory at full bandwidth takes
    clock_limit_w: float
    # Board power limit at which kernels were measured: the TDP that no user changed, or that of the
    # lender [W]
    calibrated_w: float
    compute_size: float  # Peak over that of the lender; 1 without one
    memory_size: float  # Memory bandwidth over that of the lender; 1 without one
    # Device whose kernels it borrows, of its generation or one of equal energies, "" for none
    lender: str
    low: float  # 5% quantile of measured over predicted power
    high: float  # 95% quantile of measured over predicted power
    notes: tuple[str, ...]  # What is fitted, derived or assumed, or why there are no energies
    sources: tuple[str, ...] = ()  # Sources of the energies that are not assumed


def board_energy(device: Device) -> BoardEnergy:
    """Return the energies of a device.

    Dynamic energies and the power of an awake board are multiplied by the scale that was fitted to
    measured watts of the device, if there is one.

    Args:
        device: The device; its idle power and TDP are used as stated.

    Source: data/energy/energies.toml and boards.toml, one source per value.

    Returns:
        The energies; all values but `idle_w` and `cap_w` are NaN for a device of a generation
        without energies.

    Limits: One voltage curve per generation, inferred or assumed; temperature is not modelled.

    Example:
        >>> from perfatlas.energy import board_energy
        >>> from perfatlas.hardware import resolve_system
        >>> board = board_energy(resolve_system("h100_sxm").device)
        >>> board.idle_w, board.cap_w
        (70.0, 700.0)
    """
    return _with_lender(device, _lender(device))


@lru_cache(maxsize=KEPT)
def _with_lender(device: Device, lender: str) -> BoardEnergy:
    """Return the energies of a device that borrows the kernels of another one, "" for none."""
    data = energy_data()
    own = _generation(device)
    if own is None:
        return _unknown(device)
    memory = data["memory_of"].get(device.name)
    link = data["link"].get(device.scale_up.link_type, data["link"][OTHER_LINKS])
    fitted = shipped_table(BOARDS).get(device.name, {})
    scale = fitted.get("scale", 1.0)
    flop_j = {name: scale * own[name]["value"] for name in FORMATS}
    sram_j = scale * own["sram"]["value"]
    memory_j = scale * data["memory"][memory or own["memory"]]["value"]
    flop_j |= {name: one["value"] * flop_j[one["nearest"]] for name, one in data["format"].items()}
    awake_w = fitted.get("awake_w", own["awake"]["value"] * device.calibrated_tdp_w)
    low, high = fitted.get("interval") or _spread(own)
    on_w = min(device.idle_w + awake_w, device.tdp_w)
    least_w = on_w + device.memory_bandwidth * (sram_j + memory_j)
    return BoardEnergy(
        flop_j=flop_j,
        sram_j_per_byte=sram_j,
        memory_j_per_byte=memory_j,
        link_j_per_byte=scale * link["value"],
        issue_w=scale * own["issue"]["value"] * issuing_units(device),
        voltage_slope=own["voltage_slope"]["value"],
        voltage_floor=own["voltage_floor"]["value"],
        voltage_slope_low=own["voltage_slope"]["low"],
        voltage_slope_high=own["voltage_slope"]["high"],
        voltage_floor_low=own["voltage_floor"]["low"],
        voltage_floor_high=own["voltage_floor"]["high"],
        peak_clock=device.peak_clock_hz / device.boost_clock_hz,
        highest_clock=own["highest_clock"]["value"],
        idle_w=device.idle_w,
        on_w=on_w,
        cap_w=device.tdp_w if lender else min(device.tdp_w, device.calibrated_tdp_w),
        **_borrowed(device, lender, least_w),
        lender=lender,
        low=low,
        high=high,
        notes=(_note(device, own, fitted),),
        sources=_sources(own),
    )


def _generation(device: Device) -> Mapping[str, Any] | None:
    """Return the energies of the generation of a device, None for one that has none."""
    data = energy_data()
    name = data["generation_of"].get(device.name, device.architecture)
    found: Mapping[str, Any] | None = data["generation"].get(name)
    return found


def _lender(device: Device) -> str:
    """Return the device whose products a device borrows, "" for none whose clocks compare.

    Clocks compare within a generation and between generations of equal energies. Others do not:
    most energies are assumed.
    """
    match = find_calibration(device, "gemm", "", PEAK)
    name = device.name if match is None else match.calibration.device
    if name == device.name:
        return ""
    own, other = _generation(device), _generation(resolve_system(name).device)
    if own is None or other is None:
        return ""
    same = all(own[event]["value"] == other[event]["value"] for event in SPREADING)
    return name if same else ""


def _borrowed(device: Device, lender: str, least_w: float) -> dict[str, float]:
    """Return the power limit of measured kernels, and the size of a device beside its lender.

    Args:
        lender: Its lender, "" for none.
        least_w: Power of reading its memory at full bandwidth [W].
    """
    if not lender:
        limit_w = min(device.tdp_w, device.calibrated_tdp_w)
        return {
            "clock_limit_w": limit_w,
            "calibrated_w": device.calibrated_tdp_w,
            "compute_size": 1.0,
            "memory_size": 1.0,
        }
    other = resolve_system(lender).device
    own, lent = device.peak_flop_per_s, other.peak_flop_per_s
    return {
        "clock_limit_w": max(device.tdp_w, least_w),
        "calibrated_w": other.calibrated_tdp_w,
        "compute_size": own[PEAK] / lent[PEAK] if PEAK in own and PEAK in lent else 1.0,
        "memory_size": device.memory_bandwidth / other.memory_bandwidth,
    }


def _unknown(device: Device) -> BoardEnergy:
    data = energy_data()
    of_devices = data["generation_of"].values()
    known = ", ".join(name for name in data["generation"] if name not in of_devices)
    note = (
        f"power of {device.name} is not predicted: no energies are known of"
        f" {device.architecture} (known: {known})"
    )
    return BoardEnergy(
        flop_j=dict.fromkeys((*FORMATS, *energy_data()["format"]), math.nan),
        sram_j_per_byte=math.nan,
        memory_j_per_byte=math.nan,
        link_j_per_byte=math.nan,
        issue_w=math.nan,
        voltage_slope=math.nan,
        voltage_floor=math.nan,
        voltage_slope_low=math.nan,
        voltage_slope_high=math.nan,
        voltage_floor_low=math.nan,
        voltage_floor_high=math.nan,
        peak_clock=math.nan,
        highest_clock=math.nan,
        lender="",
        on_w=math.nan,
        low=math.nan,
        high=math.nan,
        idle_w=device.idle_w,
        cap_w=device.tdp_w,
        clock_limit_w=device.tdp_w,
        calibrated_w=device.calibrated_tdp_w,
        compute_size=1.0,
        memory_size=1.0,
        notes=(note,),
    )


def _sources(own: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (
        f"energies: {value['ref']}"
        for value in own.values()
        if isinstance(value, dict) and value["kind"] != "assumed"
    )
    return tuple(dict.fromkeys(texts))


def _spread(own: Mapping[str, Any]) -> tuple[float, float]:
    """Return the mean relative ends of the intervals of a generation's energies."""
    ends = (
        sum(own[name][end] / own[name]["value"] for name in SPREADING) / len(SPREADING)
        for end in ("low", "high")
    )
    low, high = ends
    return low, high


def _note(device: Device, own: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    kinds = ", ".join(
        f"{' and '.join(names)} {kind}" for kind, names in _names_by_kind(own).items()
    )
    source = f"power of {device.name}: energies of {device.architecture}: {kinds}"
    if fitted:
        return f"{source}; {fitted['note']}"
    return f"{source}; never compared with measured watts of this device"


def _names_by_kind(own: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the energies of a generation by their kind: fitted, derived or assumed."""
    found: dict[str, list[str]] = {}
    for name, label in LABELS.items():
        found.setdefault(own[name]["kind"], []).append(label)
    return found


def lowest_clock() -> float:
    """Return the lowest clock of devices over their sustained clock."""
    return float(energy_data()["clock"]["lowest"]["value"])


@cache
def energy_data() -> dict[str, Any]:
    """Return the shipped energies, each with its interval and source."""
    return shipped_table(ENERGIES)
