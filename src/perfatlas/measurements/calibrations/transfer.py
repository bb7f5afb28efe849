"""Transfer of calibrations to unmeasured devices: choice of the donor, and expected errors.

A device uses the whole parameter set of one measured device, its donor, since tiles, splits and
efficiencies belong together. The rule reads only measured devices, never the one priced.
"""

from __future__ import annotations

from functools import cache
from math import hypot, inf, sqrt
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.files import read_toml
from perfatlas.hardware import DEFAULT_KIND, resolve_system
from perfatlas.measurements.calibrations.user_folder import FIVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.hardware import Device

# Distance of a donor from the target device, nearest first.
SAME_ARCHITECTURE: Final = 0  # and the same kind
SAME_KIND: Final = 1
OTHER_KIND: Final = 2
STEPS: Final = (SAME_ARCHITECTURE, SAME_KIND, OTHER_KIND)
# Shared memory per SM [bytes] that separates graphics dies (100 KiB) from data centre dies (164 KiB
# and more); it limits the tiles of kernels.
CPU: Final = "cpu"  # architecture
LARGE_TILES: Final = 128 * 1024
# Quantiles of Student's t with 1, 2, ... degrees of freedom; the last one is used beyond.
# Source: Student, The probable error of a mean, 1908; any table of the distribution.
T_95: Final = (6.314, 2.92, 2.353, 2.132, 2.015, 1.943, 1.895, 1.86, 1.833, 1.812)
T_75: Final = (1.0, 0.816, 0.765, 0.741, 0.727, 0.718, 0.711, 0.706, 0.703, 0.7)
DIGITS: Final = 4


class Silicon(NamedTuple):
    """Properties of a device by which donors are chosen."""

    name: str  # Catalog name
    vendor: str  # Manufacturer
    architecture: str  # As in `Device`
    kind: str  # Type of its links for collectives; otherwise large or small tiles
    # Kind of machine, as in `Device`, or "cpu" of processors, which are described as GPUs; kernels
    # of one do not run on another
    machine: str = DEFAULT_KIND


class Pair(NamedTuple):
    """Rows of one device priced with the parameters of another."""

    error: float  # Mean |ln(measured/predicted)|
    quantiles: tuple[float, ...]  # q05, q25, q50, q75, q95 of ln(measured/predicted)


Pairs = dict[tuple[str, str], Pair]  # (device of the rows, device of the parameters)


class Transfers(NamedTuple):
    """Cross-device errors of one operator, kernel family and format."""

    devices: tuple[str, ...]  # Devices that have the cell
    pairs: Pairs  # Rows of each device priced with the parameters of each other one


def silicon_of(device: Device, *, links: bool) -> Silicon:
    """Return the properties of a device by which its donor is chosen.

    Args:
        links: Whether the operator is a collective, for which the links count.
    """
    tiles = device.further.get("shared_memory_bytes", 0.0)
    kind = "large tiles" if tiles > LARGE_TILES else "small tiles"
    if links:
        kind = device.scale_up.link_type
    machine = CPU if device.architecture == CPU else device.kind
    return Silicon(device.name, device.vendor, device.architecture, kind, machine)


def catalog_silicon(names: Iterable[str], *, links: bool) -> tuple[Silicon, ...]:
    """Return the properties of catalog devices by which donors are chosen.

    Args:
        links: As in `silicon_of`.
    """
    return tuple(silicon_of(resolve_system(name).device, links=links) for name in names)


def donor_of(target: Silicon, measured: Sequence[Silicon], pairs: Pairs) -> str:
    """Return the donor of a device, "" if there is none.

    Among the nearest devices (same kind and architecture, otherwise same kind, otherwise any), the
    donor is the one whose parameters best predict the rows of the others.

    Args:
        target: The device to price; it may be one of `measured`, but is never its own donor.
        measured: Devices that have the cell.
        pairs: Those devices priced with each other's parameters; pairs of the target are ignored.

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
        near = _at_step(target, measured, step)
        if near:
            return _best_of(near, pairs)
    return ""


def expected_quantiles(
    target: Silicon,
    measured: Sequence[Silicon],
    pairs: Pairs,
    distance_errors: Mapping[int, float] = MappingProxyType({}),
) -> dict[str, float]:
    """Return the expected q05 ... q95 of ln(measured/predicted) with a donor's parameters.

    Leave-one-out: each known device is treated as unmeasured, with a donor at the same distance as
    the target's. The error of whole devices (medians of the turns) and the scatter of rows about
    it add as independent errors. The first is multiplied by Student's t with as many degrees of
    freedom as turns, and centred at zero, as each device is as often donor as target. Empty if
    fewer than two devices can take a turn. If all turns are nearer than the target, whose kernels
    may not be tuned yet, the error of whole devices at its distance in other cells is added.

    Args:
        target: The device to price; its own rows and parameters are not used.
        measured: Devices that have the cell.
        pairs: Those devices priced with each other's parameters.
        distance_errors: `errors_apart` of the measured devices; with them, turns of devices of one
            architecture count as one draw where the target is of another.

    Source:
        Two-level random effects model of devices and rows; the variance between few devices is
        estimated with as many degrees of freedom as devices, hence Student's t.

    Limits:
        Devices of one architecture are very similar; with few architectures, their spread says
        little about a new one.
    """
    others = [silicon for silicon in measured if silicon.name != target.name]
    turns, missing = _turns(target, others, pairs)
    if not turns:
        return {}
    turn_quantiles = [quantiles for _, quantiles in turns]
    distance_error = distance_errors.get(missing, 0.0)
    near = any(other.architecture == target.architecture for other in others)
    architectures = {device.architecture for device, _ in turns}
    draws = len(architectures) if distance_errors and not near else len(turns)
    bias = sqrt(fmean(turn[2] ** 2 for turn in turn_quantiles))
    rank = min(draws, len(T_95)) - 1
    spread = [fmean(abs(turn[index] - turn[2]) for turn in turn_quantiles) for index in range(5)]
    quantiles = {
        "q05": -hypot(T_95[rank] * bias, T_95[-1] * distance_error, spread[0]),
        "q25": -hypot(T_75[rank] * bias, T_75[-1] * distance_error, spread[1]),
        "q50": 0.0,
        "q75": hypot(T_75[rank] * bias, T_75[-1] * distance_error, spread[3]),
        "q95": hypot(T_95[rank] * bias, T_95[-1] * distance_error, spread[4]),
    }
    return {name: round(value, DIGITS) for name, value in quantiles.items()}


def errors_apart(cells: Iterable[Transfers], silicon: Mapping[str, Silicon]) -> dict[int, float]:
    """Return the error of whole devices priced from each distance, over many cells.

    Args:
        cells: Transfers of operators, kernel families and formats.
        silicon: The known devices by name; others are left out.

    Returns:
        Distance -> root mean square of the median of ln(measured/predicted). A distance at which
        no known device was priced has the variance of the nearest one for each step to it.

    Example:
        >>> from perfatlas.measurements.calibrations import Pair, Silicon, Transfers, errors_apart
        >>> a, b = (Silicon(name, "v", name, "large tiles") for name in "ab")
        >>> pairs = {("a", "b"): Pair(0.3, (0.1, 0.2, 0.3, 0.4, 0.5))}
        >>> cells = [Transfers(("a", "b"), pairs)]
        >>> {step: round(rms, 2) for step, rms in errors_apart(cells, {"a": a, "b": b}).items()}
        {1: 0.3, 2: 0.42}
    """
    squares: dict[int, list[float]] = {step: [] for step in STEPS}
    for cell in cells:
        devices = [silicon[name] for name in cell.devices if name in silicon]
        for step in STEPS:
            turns = _turns_at(devices, step, cell.pairs)
            squares[step] += [quantiles[2] ** 2 for _, quantiles in turns]
    errors: dict[int, float] = {}
    for step in STEPS:
        nearer = [near for near in STEPS[: step + 1] if squares[near]]
        if nearer:
            errors[step] = sqrt((1 + step - nearer[-1]) * fmean(squares[nearer[-1]]))
    return errors


def _turns(
    target: Silicon, measured: Sequence[Silicon], pairs: Pairs
) -> tuple[list[tuple[Silicon, tuple[float, ...]]], int]:
    """Return the devices that can represent the target, with their quantiles.

    With them the distance of the target if all of them are nearer, otherwise -1.
    """
    turns_at = {step: _turns_at(measured, step, pairs) for step in STEPS}
    distance = next((step for step in STEPS if _at_step(target, measured, step)), OTHER_KIND)
    turns = turns_at[distance]
    # Without turns inside the kind, use donors of the other kind.
    if distance == SAME_KIND and all(silicon.kind != target.kind for silicon, _ in turns):
        turns = turns + turns_at[OTHER_KIND]
    farther, nearer = STEPS[distance + 1 :], STEPS[:distance][::-1]
    for step in farther:
        turns = turns or turns_at[step]
    missing = -1 if turns else distance
    for step in nearer:
        turns = turns or turns_at[step]
    return turns, missing


def _turns_at(
    measured: Sequence[Silicon], step: int, pairs: Pairs
) -> list[tuple[Silicon, tuple[float, ...]]]:
    """Return the devices with a donor at a distance, and the quantiles with its parameters."""
    turns = []
    for device in measured:
        near = _at_step(device, measured, step)
        pair = pairs.get((device.name, _best_of(near, pairs))) if near else None
        if pair is not None:
            turns.append((device, pair.quantiles))
    return turns


def _at_step(target: Silicon, measured: Sequence[Silicon], step: int) -> list[str]:
    """Return the devices at a distance from the target."""
    return [
        silicon.name
        for silicon in measured
        if silicon.name != target.name and _distance(silicon, target) == step
    ]


def _distance(silicon: Silicon, other: Silicon) -> int:
    if silicon.kind != other.kind:
        return OTHER_KIND
    return SAME_ARCHITECTURE if silicon.architecture == other.architecture else SAME_KIND


def _best_of(names: Sequence[str], pairs: Pairs) -> str:
    """Return the device whose parameters best predict the rows of the others."""

    def error(donor: str) -> float:
        errors = [pairs[rows, donor].error for rows in names if (rows, donor) in pairs]
        return fmean(errors) if errors else inf

    return min(names, key=lambda name: (error(name), name))


def transfer_path(operator: str) -> Path:
    """Return the file with the pairs of an operator.

    Args:
        operator: As in `Calibration`.
    """
    folder = Path(__file__).parents[2] / "data" / "calibrations" / "transfer"
    return folder / f"{operator}.toml"


@cache
def load_transfers(operator: str) -> Mapping[tuple[str, str], Transfers]:
    """Return (kernel family, format) -> cross-device errors; empty without a file.

    Args:
        operator: As in `Calibration`.

    Example:
        >>> from perfatlas.measurements.calibrations import load_transfers
        >>> load_transfers("abacus")
        {}
    """
    path = transfer_path(operator)
    rows = read_toml(path)["transfer"] if path.is_file() else []
    transfers: dict[tuple[str, str], Transfers] = {}
    for row in rows:
        key = (row["family"], row["format"])
        devices, pairs = transfers.get(key, Transfers((), {}))
        columns = zip(row["error"], *(row[name] for name in FIVE), strict=True)
        for donor, (error, *quantiles) in zip(row["donors"], columns, strict=True):
            pairs[row["device"], donor] = Pair(error, tuple(quantiles))
        transfers[key] = Transfers((*devices, row["device"]), pairs)
    return transfers
