"""Whose fitted parameters price a device nobody measured, and how far off that was elsewhere.

A device borrows the whole parameter set of one real device, its donor: tiles, splits and
efficiencies belong together. The rule reads the devices that were measured, never the one priced.
"""

from __future__ import annotations

import tomllib
from functools import cache
from math import hypot, inf, sqrt
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations.user_folder import FIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.hardware import Device

# How far a donor is from the device it lends to, nearest first.
SAME_ARCHITECTURE: Final = 0  # and of the same kind
SAME_KIND: Final = 1
OTHER_KIND: Final = 2
STEPS: Final = (SAME_ARCHITECTURE, SAME_KIND, OTHER_KIND)
# Shared memory per SM [bytes] that parts the dies of graphics boards (100 KiB) from those of
# data centres (164 KiB and more): it bounds the tiles a kernel can have.
LARGE_TILES: Final = 128 * 1024
# Quantiles of Student's t with 1, 2, ... degrees of freedom; the last one serves beyond.
# Source: Student, The probable error of a mean, 1908; any table of the distribution.
T_95: Final = (6.314, 2.92, 2.353, 2.132, 2.015, 1.943, 1.895, 1.86, 1.833, 1.812)
T_75: Final = (1.0, 0.816, 0.765, 0.741, 0.727, 0.718, 0.711, 0.706, 0.703, 0.7)
DIGITS: Final = 4


class Silicon(NamedTuple):
    """What decides whose kernels a device runs most alike.

    Args:
        name: Catalog name.
        vendor: Who makes it.
        architecture: As in `Device`.
        kind: Of its links for a collective, else of its tiles: large or small.
    """

    name: str
    vendor: str
    architecture: str
    kind: str


class Pair(NamedTuple):
    """Rows of one device priced with the parameters of another.

    Args:
        error: Mean |ln(measured/predicted)|.
        quantiles: q05, q25, q50, q75, q95 of ln(measured/predicted).
    """

    error: float
    quantiles: tuple[float, ...]


Pairs = dict[tuple[str, str], Pair]  # (whose rows, whose parameters)


class Transfers(NamedTuple):
    """What is known of one operator, kernel family and format beyond single devices.

    Args:
        devices: Devices that have the cell.
        pairs: Each of them priced with each other's parameters.
    """

    devices: tuple[str, ...]
    pairs: Pairs


def silicon_of(device: Device, *, links: bool) -> Silicon:
    """Return what decides whose parameters a device borrows.

    Args:
        device: Any device.
        links: For a collective: the kind is that of the links.
    """
    kind = "large tiles" if device.shared_memory_bytes > LARGE_TILES else "small tiles"
    if links:
        kind = device.scale_up.kind
    return Silicon(device.name, device.vendor, device.architecture, kind)


def catalog_silicon(names: Iterable[str], *, links: bool) -> tuple[Silicon, ...]:
    """Return what decides whose parameters catalog devices borrow and lend.

    Args:
        names: Catalog names.
        links: As in `silicon_of`.
    """
    return tuple(silicon_of(resolve_system(name).device, links=links) for name in names)


def donor_of(target: Silicon, known: Sequence[Silicon], pairs: Pairs) -> str:
    """Return the device whose parameters a device borrows, "" where nobody lends.

    Of the nearest devices (same kind and architecture, else same kind, else any) the one whose
    parameters predict the rows of the other nearest ones best.

    Args:
        target: The device to price; it may be among the known, and does not lend to itself.
        known: Devices that have the cell.
        pairs: Those devices priced with each other's parameters; pairs of the target are unread.

    Example:
        >>> from perfatlas.measurements.calibrations import Pair, Silicon, donor_of
        >>> known = [Silicon(name, "v", "old", "large tiles") for name in "abc"]
        >>> error = {"ab": 0.3, "ac": 0.2, "ba": 0.3, "bc": 0.1, "ca": 0.3, "cb": 0.2}
        >>> flat = (0.0, 0.0, 0.0, 0.0, 0.0)
        >>> pairs = {(rows, fit): Pair(one, flat) for (rows, fit), one in error.items()}
        >>> donor_of(Silicon("new", "v", "old", "large tiles"), known, pairs)  # 0.15 on a and b
        'c'
    """
    for step in STEPS:
        near = _at_step(target, known, step)
        if near:
            return _best_of(near, pairs)
    return ""


def expected_quantiles(target: Silicon, known: Sequence[Silicon], pairs: Pairs) -> dict[str, float]:
    """Return q05 ... q95 of ln(measured/predicted) to expect with a donor's parameters.

    Every known device takes a turn as one nobody measured, with a donor as far from it as the
    target's is from the target. How far whole devices were off (the medians of the turns) and how
    rows scatter about that add as independent errors: the first times Student's t of as many
    degrees of freedom as there were turns, about zero, for a device is as often the lender as the
    borrower. Empty where no two devices can take a turn.

    Args:
        target: The device to price; its own rows and parameters take no part.
        known: Devices that have the cell.
        pairs: Those devices priced with each other's parameters.

    Source:
        Random effects of two levels, devices and rows; the variance between few devices is
        estimated with as many degrees of freedom as devices, hence t.

    Limits:
        Devices of one architecture are near twins, and the fewer architectures take turns the
        less their spread says of a new one.
    """
    others = [one for one in known if one.name != target.name]
    found = _turns(target, others, pairs)
    if not found:
        return {}
    bias = sqrt(fmean(turn[2] ** 2 for turn in found))
    rank = min(len(found), len(T_95)) - 1
    spread = [fmean(abs(turn[place] - turn[2]) for turn in found) for place in range(5)]
    quantiles = {
        "q05": -hypot(T_95[rank] * bias, spread[0]),
        "q25": -hypot(T_75[rank] * bias, spread[1]),
        "q50": 0.0,
        "q75": hypot(T_75[rank] * bias, spread[3]),
        "q95": hypot(T_95[rank] * bias, spread[4]),
    }
    return {name: round(value, DIGITS) for name, value in quantiles.items()}


def _turns(target: Silicon, known: Sequence[Silicon], pairs: Pairs) -> list[tuple[float, ...]]:
    """Return the quantiles of every device that can stand in for the target."""
    at = {step: _turns_at(known, step, pairs) for step in STEPS}
    asked = next((step for step in STEPS if _at_step(target, known, step)), OTHER_KIND)
    found = at[asked]
    # A kind that lent nothing to itself says nothing of itself: then kinds lend to each other.
    if asked == SAME_KIND and all(one.kind != target.kind for one, _ in found):
        found = found + at[OTHER_KIND]
    farther, nearer = STEPS[asked + 1 :], STEPS[:asked][::-1]
    for step in (*farther, *nearer):
        found = found or at[step]
    return [quantiles for _, quantiles in found]


def _turns_at(
    known: Sequence[Silicon], step: int, pairs: Pairs
) -> list[tuple[Silicon, tuple[float, ...]]]:
    """Return the devices with a donor at a step, and the quantiles with its parameters."""
    found = []
    for turn in known:
        near = _at_step(turn, known, step)
        pair = pairs.get((turn.name, _best_of(near, pairs))) if near else None
        if pair is not None:
            found.append((turn, pair.quantiles))
    return found


def _at_step(target: Silicon, known: Sequence[Silicon], step: int) -> list[str]:
    """Return the devices that are that far from the target."""
    return [one.name for one in known if one.name != target.name and _apart(one, target) == step]


def _apart(one: Silicon, other: Silicon) -> int:
    if one.kind != other.kind:
        return OTHER_KIND
    return SAME_ARCHITECTURE if one.architecture == other.architecture else SAME_KIND


def _best_of(names: Sequence[str], pairs: Pairs) -> str:
    """Return the device whose parameters predict the rows of the others best."""

    def error(donor: str) -> float:
        known = [pairs[rows, donor].error for rows in names if (rows, donor) in pairs]
        return fmean(known) if known else inf

    return min(names, key=lambda name: (error(name), name))


def transfer_path(operator: str) -> Path:
    """Return the file of the pairs of an operator.

    Args:
        operator: As in `Calibration`.
    """
    folder = Path(__file__).parents[2] / "data" / "calibrations" / "transfer"
    return folder / f"{operator}.toml"


@cache
def load_transfers(operator: str) -> Mapping[tuple[str, str], Transfers]:
    """Return (kernel family, format) -> what is known of its transfer; empty without a file.

    Args:
        operator: As in `Calibration`.

    Example:
        >>> from perfatlas.measurements.calibrations import load_transfers
        >>> load_transfers("abacus")
        {}
    """
    path = transfer_path(operator)
    rows = tomllib.loads(path.read_text("utf-8"))["transfer"] if path.is_file() else []
    found: dict[tuple[str, str], Transfers] = {}
    for row in rows:
        key = (row["family"], row["format"])
        devices, pairs = found.get(key, Transfers((), {}))
        columns = zip(row["error"], *(row[name] for name in FIVE), strict=True)
        for donor, (error, *quantiles) in zip(row["donors"], columns, strict=True):
            pairs[row["device"], donor] = Pair(error, tuple(quantiles))
        found[key] = Transfers((*devices, row["device"]), pairs)
    return found
