"""Sustained loads: energies per event fitted to their watts, and scores of those not fitted.

Shape legend: N loads, E energies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.optimize import least_squares

from perfatlas.energy import board_energy, energy_data, voltage
from perfatlas.hardware import resolve_system
from perfatlas.quantities import MissingDependencyError
from validation.power.scores import Watts, power_error
from validation.power.splits import power_splits
from validation.runs import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

DIGITS: Final = 3  # significant, of every fitted value
PICO: Final = 1e-12
# Start of the search [pJ], in the order of `_energies`, and of the slope of the voltage.
START: Final = (1.2, 0.7, 50.0, 80.0, 70.0, 1.0, 0.5, 0.9, 0.7)


@dataclass(frozen=True, kw_only=True)
class Loads:
    """Sustained loads of one or more devices."""

    rows: tuple[Mapping[str, str], ...]  # Rows of the files, with `device` and `folder` (N)

    def text(self, name: str) -> NDArray[np.str_]:
        """Return a column (N,)."""
        return np.array([row[name] for row in self.rows])

    def number(self, name: str) -> FloatArray:
        """Return a column of numbers, 0 where it is empty (N,)."""
        return np.array([float(row[name] or 0.0) for row in self.rows], np.float64)

    def take(self, mask: NDArray[np.bool_]) -> Loads:
        """Return the loads of a mask.

        Args:
            mask: The mask (N,).
        """
        return Loads(rows=tuple(self.rows[n] for n in np.flatnonzero(mask).tolist()))

    def memory_bytes_per_s(self) -> FloatArray:
        """Return the minimum traffic of device memory (N,) [byte/s]."""
        return np.where(self.number("cold") == 1.0, self.number("bytes_per_s"), 0.0)


def read_loads(folder: Path, studies: Iterable[str]) -> Loads:
    """Return the sustained loads of some studies.

    Args:
        folder: The folder `measurements` of the repository.
        studies: Names of studies.

    Raises:
        MissingDependencyError: The folder has no tables of power.
    """
    stated, wanted = power_splits().loads, frozenset(studies)
    replaced = {(one["folder"], one["study"]) for one in stated["replaced"]}
    rows = []
    for device in stated["devices"]:
        paths = sorted((folder / device).glob("*_power*/power.csv"))
        if not paths:
            raise MissingDependencyError(
                f"{folder / device} has no */power.csv; give the folder `measurements` of the"
                " perfatlas repository"
            )
        for path in paths:
            place = f"{device}/{path.parent.name}"
            rows += [
                {**row, "device": device}
                for row in read_table(path)
                if row["study"] in wanted and (place, row["study"]) not in replaced
            ]
    return Loads(rows=tuple(rows))


def fit_loads(folder: Path) -> dict[str, float]:
    """Return the energies of Hopper and of its memories, fitted to sustained loads.

    Energies of FLOP and bytes and the slope of the voltage are those of least squared logarithmic
    error over tensor-core kernels, streams and products on normal values. Tensor-core kernels have
    their own energies of a FLOP, as their operands need no supply; they determine the slope.

    Args:
        folder: The folder `measurements` of the repository.

    Returns:
        Value by its path in data/energy/energies.toml and boards.toml, three significant digits.

    Raises:
        MissingDependencyError: The folder has no tables of power.

    Limits: Traffic is the minimum of each load. One card of each device.
    """
    loads = read_loads(folder, power_splits().loads["fitted"])
    on, off = _boards_on_w(loads)
    study, kernel = loads.text("study"), loads.text("kernel")
    asked = power_splits().loads
    chosen = (study == "stream") | ((study == "registers") & (kernel == "wgmma"))
    chosen |= (study == "gemm") & np.isin(loads.text("format"), asked["formats"])
    events = loads.take(chosen & (loads.text("inputs") == asked["inputs"]))
    found = _fit_events(events, on)
    found |= _issue(loads.take((study == "floor") & (kernel == "spin")), on)
    awake = {device: on[device] - off[device] for device in on}
    tdp_w = {device: resolve_system(device).device.tdp_w for device in on}
    relative = np.mean([awake[device] / tdp_w[device] for device in on])
    found["generation.hopper.awake"] = float(relative)
    found |= {f"{device}.awake_w": watts for device, watts in awake.items()}
    found |= _zeros_of_bytes(loads.take(loads.text("device") == "h100_sxm"), on["h100_sxm"], found)
    found |= _zeros_of_flop(loads, on, found)
    return {name: float(f"{value:.{DIGITS}g}") for name, value in found.items()}


def shipped_values() -> dict[str, float]:
    """Return the shipped values of everything that `fit_loads` and `fit_kernels` return."""
    data = energy_data()
    hopper = data["generation"]["hopper"]
    names = ("bf16", "fp8", "sram", "issue", "voltage_slope", "highest_clock", "awake")
    found = {f"generation.hopper.{name}": hopper[name]["value"] for name in names}
    found["generation.blackwell.issue"] = data["generation"]["blackwell"]["issue"]["value"]
    found |= {f"memory.{name}": data["memory"][name]["value"] for name in ("hbm3", "hbm3e")}
    for device in power_splits().loads["devices"]:
        one = resolve_system(device).device
        board = board_energy(one)
        found[f"{device}.awake_w"] = round(board.on_w - one.idle_w, 9)
    zeros = data["inputs"]["zeros"]
    return found | {f"inputs.zeros.{name}": zero["value"] for name, zero in zeros.items()}


def score_loads(folder: Path) -> list[dict[str, Any]]:
    """Return the errors of the shipped model in the studies that no energy is fitted to.

    Power is predicted from the measured rates, at full clock and limited by the TDP.

    Args:
        folder: The folder `measurements` of the repository.

    Returns:
        One row per device and study: errors with the shipped issue share, and their mean with
        shares of 0 and 1.

    Raises:
        MissingDependencyError: The folder has no tables of power.
    """
    stated = power_splits().loads
    loads = read_loads(folder, stated["scored"])
    device, study = loads.text("device"), loads.text("study")
    rows = []
    for one in stated["devices"]:
        for name in stated["scored"]:
            some = loads.take((device == one) & (study == name))
            measured = some.number("energy_power_w")
            group = stated["issue_share"][name]
            shipped = energy_data()["issue_share"][group]["value"]
            errors = {
                share: power_error(_predicted_w(some, one, share), measured)
                for share in (shipped, 0.0, 1.0)
            }
            rows.append(
                {
                    "device": one,
                    "study": name,
                    **errors[shipped],
                    "mape_issue_0": errors[0.0]["mape"],
                    "mape_issue_1": errors[1.0]["mape"],
                }
            )
    return rows


def _predicted_w(loads: Loads, device: str, share: float) -> FloatArray:
    """Return the power of loads in bf16 with the shipped energies (N,) [W]."""
    board = board_energy(resolve_system(device).device)
    dynamic = board.flop_j["bf16"] * loads.number("flop_per_s")
    dynamic += board.sram_j_per_byte * loads.number("bytes_per_s")
    dynamic += board.memory_j_per_byte * loads.memory_bytes_per_s()
    dynamic += share * board.issue_w * loads.number("busy_share")
    ones = np.ones_like(dynamic)
    return Watts(ones, dynamic, 0.0 * ones, board.on_w * ones, board.cap_w * ones).predicted()


def _boards_on_w(loads: Loads) -> tuple[dict[str, float], dict[str, float]]:
    """Return the power of each device with and without a context [W]."""
    idle = loads.take(loads.text("study") == "idle")
    device, note, watts = idle.text("device"), idle.text("note"), idle.number("energy_power_w")
    on, off = (
        {
            one: float(np.median(watts[(device == one) & (note == text)]))
            for one in np.unique(device)
        }
        for text in ("context", "no context")
    )
    return on, off


def _fit_events(loads: Loads, on: Mapping[str, float]) -> dict[str, float]:
    device = loads.text("device")
    boost_hz = {name: resolve_system(name).device.boost_clock_hz for name in on}
    clock = loads.number("clock_hz") / np.array([boost_hz[one] for one in device])
    on_w = np.array([on[one] for one in device])
    floor = np.asarray(energy_data()["generation"]["hopper"]["voltage_floor"]["value"])
    chip_NE, memory_NE = _event_rates(loads)
    second = (loads.text("study") == "registers") & (device == "h200_sxm")

    def error(point: FloatArray) -> FloatArray:
        *energies, card, slope = point
        squared = voltage(clock, np.asarray(slope), floor) ** 2
        chip_w = chip_NE @ np.array(energies) * np.where(second, card, 1.0)
        predicted = on_w + squared * chip_w + memory_NE @ np.array(energies)
        found: FloatArray = np.log(predicted / loads.number("energy_power_w"))
        return found

    bf16, fp8, sram, hbm3, hbm3e, _, _, _, slope = least_squares(error, START).x.tolist()
    return {
        "generation.hopper.bf16": PICO * bf16,
        "generation.hopper.fp8": PICO * fp8,
        "generation.hopper.sram": PICO * sram,
        "generation.hopper.voltage_slope": slope,
        "memory.hbm3": PICO * hbm3,
        "memory.hbm3e": PICO * hbm3e,
    }


def _event_rates(loads: Loads) -> tuple[FloatArray, FloatArray]:
    """Return events of the chip and of memory per second, in 10^12, each (N, E).

    Energies: bf16, fp8, sram, hbm3, hbm3e, and bf16 and fp8 without supply of operands.
    """
    alone, fp8 = loads.text("study") == "registers", loads.text("format") == "fp8"
    flop, moved = PICO * loads.number("flop_per_s"), PICO * loads.memory_bytes_per_s()
    onchip = PICO * loads.number("bytes_per_s") * ~alone
    none, newer = np.zeros_like(flop), loads.text("device") == "h200_sxm"
    chip = (flop * ~fp8 * ~alone, flop * fp8 * ~alone, onchip, none, none)
    own = (flop * ~fp8 * alone, flop * fp8 * alone)
    memory = (none, none, none, moved * ~newer, moved * newer, none, none)
    return np.stack([*chip, *own], axis=1), np.stack(memory, axis=1)


def _issue(spins: Loads, on: Mapping[str, float]) -> dict[str, float]:
    """Return the power of an SM that issues without pause, the mean of the devices [W]."""
    sms, threads = spins.number("sms"), spins.number("threads")
    device, watts = spins.text("device"), spins.number("energy_power_w")
    full = (sms == sms.max()) & (threads == threads.max())
    each = [(watts[full & (device == name)] - on[name]) / sms.max() for name in on]
    return {"generation.hopper.issue": float(np.concatenate(each).mean())}


def _zeros_of_bytes(loads: Loads, on_w: float, found: Mapping[str, float]) -> dict[str, float]:
    """Return the energies of bytes of zeros relative to those of normal values."""
    kernel, sms = loads.text("kernel"), loads.number("sms")
    size, inputs = loads.number("working_set_bytes"), loads.text("inputs")
    asked = power_splits().loads["zeros"]
    reads = (kernel == "read") & (sms == sms.max())
    masks = {"sram": size == asked["cached_bytes"], "memory": size == asked["memory_bytes"]}
    ratio: dict[str, float] = {}
    for name, mask in masks.items():
        joules = []
        for values, sram in (("zeros", ratio.get("sram", 1.0)), ("normal", 1.0)):
            one = loads.take(reads & mask & (inputs == values))
            each = (one.number("energy_power_w") - on_w) / one.number("bytes_per_s")
            if name == "memory":
                each = each - sram * found["generation.hopper.sram"]
            joules.append(float(each.mean()))
        ratio[name] = joules[0] / joules[1]
    return {f"inputs.zeros.{name}": value for name, value in ratio.items()}


def _zeros_of_flop(
    loads: Loads, on: Mapping[str, float], found: Mapping[str, float]
) -> dict[str, float]:
    """Return the energy of a FLOP on zeros over that on normal values, and the clock of zeros.

    From products of one size on both, at the voltage of their clocks, without the energies of their
    bytes. Power does not limit products of zeros.
    """
    asked = power_splits().loads
    size, study = asked["zeros"]["product"], loads.text("study") == "gemm"
    same = np.all([loads.number(name) == size for name in "mnk"], axis=0)
    same &= study & np.isin(loads.text("kernel"), asked["zeros"]["kernels"])
    shares, clocks = [], []
    for device in on:
        boost_hz = resolve_system(device).device.boost_clock_hz
        for name in asked["formats"]:
            own = same & (loads.text("device") == device) & (loads.text("format") == name)
            joules = {}
            for values in ("zeros", "normal"):
                some = loads.take(own & (loads.text("inputs") == values))
                clock = some.number("clock_hz") / boost_hz
                joules[values] = _flop_j(some, on[device], clock, found, zeros=values == "zeros")
                if values == "zeros":
                    clocks.append(float(clock.mean()))
            shares.append(joules["zeros"] / joules["normal"])
    return {
        "inputs.zeros.flop": float(np.mean(shares)),
        "generation.hopper.highest_clock": float(np.mean(clocks)),
    }


def _flop_j(
    loads: Loads, on_w: float, clock: FloatArray, found: Mapping[str, float], *, zeros: bool
) -> float:
    """Return the mean energy of a FLOP at the voltage of the highest clock [J]."""
    memory = "memory.hbm3e" if loads.rows[0]["device"] == "h200_sxm" else "memory.hbm3"
    relative = {
        name: found[f"inputs.zeros.{name}"] if zeros else 1.0 for name in ("sram", "memory")
    }
    floor = np.asarray(energy_data()["generation"]["hopper"]["voltage_floor"]["value"])
    squared = voltage(clock, np.asarray(found["generation.hopper.voltage_slope"]), floor) ** 2
    memory_w = relative["memory"] * found[memory] * loads.memory_bytes_per_s()
    bytes_w = relative["sram"] * found["generation.hopper.sram"] * loads.number("bytes_per_s")
    chip_w = (loads.number("energy_power_w") - on_w - memory_w) / squared - bytes_w
    return float((chip_w / loads.number("flop_per_s")).mean())
