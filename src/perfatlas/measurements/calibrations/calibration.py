"""Calibrations: fitted parameters by device, operator, kernel family and format."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from perfatlas.measurements.calibrations.engine_transfer import engine_transfers, envelope
from perfatlas.measurements.calibrations.transfer import (
    Silicon,
    catalog_silicon,
    donor_of,
    expected_quantiles,
    load_transfers,
    silicon_of,
)
from perfatlas.measurements.calibrations.user_folder import (
    NO_FILE,
    UserFile,
    read_user_file,
    user_file_stamp,
)
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.hardware import Device

TABLE: Final = "[[calibration]]\n"  # header of each cell in a file
KERNELS: Final = (
    "gemm",
    "moe",
    "streaming",
    "prefill_attention",
    "decode_attention",
    "mla_prefill",
    "mla_decode",
    "sparse_mla_prefill",
    "key_scores_prefill",
    "key_scores_decode",
    "key_selection",
    "scan_prefill",
    "scan_decode",
    "conv_prefill",
    "conv_decode",
)
# Overridden device fields for which a calibration no longer describes the measured silicon.
KERNEL_FIELDS: Final = (
    "device.peak.",
    "device.sm_count",
    "device.dies",
    "device.exponentials_per_sm_clock",
    "device.clock.peak",
    "device.l2",
    "device.shared_memory",
    "device.memory.bandwidth",
    "device.overhead_ratio",
)
LINK_FIELDS: Final = ("device.scale_up.", "device.overhead_ratio", "node.", "fabric")
# Families that can substitute for another: engines share DeepGEMM, CUTLASS and FlashInfer kernels.
SUBSTITUTE_FAMILIES: Final = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A calibration cell: fitted parameters with their evidence.

    Args:
        id: "<device>/<operator>/<family>/<format>".
        device: Device the rows were measured on.
        operator: gemm, moe, prefill_attention, decode_attention, mla_prefill, mla_decode,
            scan_prefill, scan_decode, conv_prefill, conv_decode, streaming, or a collective op.
        family: Kernel family: the engine whose kernels were measured.
        format: Format of the product, with "+<kv_format>_kv" where the cache differs.
        parameters: Name -> value [SI]; names carry units.
        rows: Number of scored rows.
        mape, median_error, p90_error, bias: Over all rows (bias = mean ln(predicted/measured)).
        residual_quantiles: {"q05","q25","q50","q75","q95"} of ln(measured/predicted).
        transfer_quantiles: Expected quantiles when this cell prices another device; empty if too
            few devices were measured.
        baselines: roofline_mape and two_parameter_mape on the same rows.
        excluded: Reason -> rows excluded from fit and score.
        least_shape, most_shape: Dimension -> minimum and maximum over the rows; empty if unknown.
        protocol: How the rows were measured.
        data_hash: Hash of the rows.
        data_version: Engine version of the table.
        fitted: Date of the fit.
        command: Command that regenerates it.
    """

    id: str
    device: str
    operator: str
    family: str
    format: str
    parameters: Mapping[str, float]
    rows: int
    mape: float
    median_error: float
    p90_error: float
    bias: float
    residual_quantiles: Mapping[str, float]
    transfer_quantiles: Mapping[str, float] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)
    excluded: Mapping[str, int] = field(default_factory=dict)
    least_shape: Mapping[str, float] = field(default_factory=dict)
    most_shape: Mapping[str, float] = field(default_factory=dict)
    protocol: str
    data_hash: str
    data_version: str
    fitted: str
    command: str


@dataclass(frozen=True, kw_only=True)
class CalibrationMatch:
    """The calibration that prices an operator on a device, with its expected errors.

    Args:
        calibration: The fitted cell.
        own: Whether it was measured on this device with these kernels.
        quantiles: Expected {"q05", ..., "q95"} of ln(measured/predicted).
        notes: Substitutions and user calibrations; empty for the device's own shipped cell.
        table: Version and data hash of the table that corrects it in tier measured; otherwise "".
        own_kernels: Whether these kernels were measured on the device before a user changed it, so
            that a change of the hardware does not change which kernels run.
    """

    calibration: Calibration
    own: bool
    quantiles: Mapping[str, float]
    notes: tuple[str, ...] = ()
    table: tuple[str, str] = ("", "")
    own_kernels: bool = False

    @property
    def limits(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Minimum and maximum of each dimension of the fitted rows."""
        return self.calibration.least_shape, self.calibration.most_shape


def calibration_folder() -> Path:
    """Return the folder of the shipped calibrations."""
    return Path(__file__).parents[2] / "data" / "calibrations"


@cache
def load_calibrations(device_name: str) -> dict[str, Calibration]:
    """Return the calibrations measured on a device, by id; empty if there are none.

    Args:
        device_name: Catalog name of the device.

    Example:
        >>> from perfatlas.measurements.calibrations import load_calibrations
        >>> load_calibrations("abacus")
        {}
    """
    path = calibration_folder() / f"{device_name}.toml"
    return read_calibrations(path) if path.is_file() else {}


def read_calibrations(path: Path) -> dict[str, Calibration]:
    """Return the calibrations of one file by id."""
    document = tomllib.loads(path.read_text("utf-8"))
    cells = [Calibration(**row) for row in document.get("calibration", [])]
    return {cell.id: cell for cell in cells}


@cache
def shipped_cells(device_name: str, operator: str, format_name: str) -> tuple[Calibration, ...]:
    """Return the shipped cells of one operator and format; only their tables are parsed."""
    path = calibration_folder() / f"{device_name}.toml"
    tables = path.read_text("utf-8").split(TABLE)[1:] if path.is_file() else []
    wanted = (f'\noperator = "{operator}"\n', f'\nformat = "{format_name}"\n')
    text = "".join(TABLE + table for table in tables if all(line in table for line in wanted))
    return tuple(Calibration(**row) for row in tomllib.loads(text).get("calibration", []))


def user_calibrations(device_name: str) -> dict[str, Calibration]:
    """Return the user's calibrations of a device, by id; empty if there are none.

    Args:
        device_name: Name of the device, and of its file in the user's folder.

    Raises:
        InvalidSpecError: The file is not a calibration file of that device.
    """
    return _user_cells(device_name, user_file_stamp(device_name))


@cache
def _user_file(stamp: tuple[str, int, int]) -> UserFile:
    """Return a user's file; `stamp` identifies its version."""
    return UserFile([], ()) if stamp == NO_FILE else read_user_file(Path(stamp[0]))


@cache
def _user_cells(device_name: str, stamp: tuple[str, int, int]) -> dict[str, Calibration]:
    cells = [Calibration(**row) for row in _user_file(stamp).cells]
    for cell in cells:
        if cell.id != f"{device_name}/{cell.operator}/{cell.family}/{cell.format}":
            raise InvalidSpecError(
                f"calibration file '{stamp[0]}': {cell.id!r} is not the id of a cell of"
                f" {device_name!r}; a file may contain only cells of the device it is named after"
            )
    return {cell.id: cell for cell in cells}


def find_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return the best calibration for an operator on a device, None if there is none.

    Order of preference: the device's own cell; the same device with another engine's kernels; the
    device's kernel relative; the parameters of a donor (`transfer.donor_of`), if this device has
    any calibration or a donor's vendor, and so runs the same kernels. Each substitution is noted
    and widens the quantiles. A user calibration replaces the shipped cell and is noted with the
    hash of its rows.

    Args:
        device: Device the operator runs on.
        operator: gemm, moe, prefill_attention, ... as in `Calibration`.
        family: Kernel family; "" selects the most accurate cell.
        format_name: Format, with "+<kv_format>_kv" where the cache differs.
    """
    return find_calibration_at(
        device, (operator, family, format_name), user_file_stamp(device.name)
    )


def kernel_families(device_names: Iterable[str]) -> tuple[str, ...]:
    """Return the available kernel families: the shipped ones, then the user's.

    Args:
        device_names: Devices whose user calibrations may add families.
    """
    mine = (cell.family for name in device_names for cell in user_calibrations(name).values())
    return tuple(dict.fromkeys((*SUBSTITUTE_FAMILIES, *mine)))


def find_shipped_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return the result of `find_calibration` without user calibrations.

    Args:
        device: Device the operator runs on.
        operator: As in `Calibration`.
        family: Kernel family.
        format_name: Format of the cell.
    """
    return find_calibration_at(device, (operator, family, format_name), NO_FILE)


def find_calibration_at(
    device: Device, cell: tuple[str, str, str], stamp: tuple[str, int, int]
) -> CalibrationMatch | None:
    """Return the result of `find_calibration` for a known version of the user's file.

    Args:
        device: Device the operator runs on.
        cell: Operator, kernel family and format.
        stamp: `user_file_stamp` of the device's name; for many cells it is read once.
    """
    silicon = silicon_of(device, links=cell[0] not in KERNELS)
    found = _find(silicon, device.calibration_relative, _changed(device, cell[0]), cell, stamp)
    return found and with_overheads(found, device)


def with_overheads(match: CalibrationMatch, device: Device) -> CalibrationMatch:
    """Return a match with its fixed times scaled by the overhead ratio of a device.

    The ramp of a collective, overhead_ramp_s (wire time / reference time)^ramp_exponent, has a
    fixed time in its reference too, which scales with the others.

    Args:
        match: A calibration for the device.
        device: The device.
    """
    ratio = device.further.get("overhead_ratio", 1.0)
    if ratio == 1.0:
        return match
    fitted = match.calibration.parameters
    scaled = {name: value * ratio for name, value in fitted.items() if name.endswith("_s")}
    if "ramp_exponent" in fitted:
        scaled["overhead_ramp_s"] *= ratio ** -fitted["ramp_exponent"]
    calibration = replace(match.calibration, parameters={**fitted, **scaled})
    return replace(match, calibration=calibration)


def _changed(device: Device, operator: str) -> tuple[str, ...]:
    """Return the overridden fields for which calibrations do not describe the silicon."""
    fields = KERNEL_FIELDS if operator in KERNELS else LINK_FIELDS
    return tuple(name for name in device.overridden if name.startswith(fields))


@cache
def _find(
    silicon: Silicon,
    relative: str,
    changed: tuple[str, ...],
    cell: tuple[str, str, str],
    stamp: tuple[str, int, int],
) -> CalibrationMatch | None:
    operator, family, format_name = cell
    device_name = silicon.name
    mine = _user_cells(device_name, stamp)
    cells = _cells(device_name, operator, format_name, mine)
    if cells:
        match = _noted(_same_device(cells, family), mine)
        if match.calibration.id in mine:  # measured on the user's device, including its changes
            changed = tuple(name for name in changed if name not in _user_file(stamp).changed)
        return _what_if(match, changed) if changed else match
    cells = _cells(relative, operator, format_name) if relative else ()
    if cells:
        lent = _same_device(cells, family)
        return as_substitute(
            lent, f"{device_name} has no measured {operator} kernels; those of {relative} are used"
        )
    calibrated = bool(load_calibrations(relative or device_name) or mine)
    return _from_donor(silicon, cell, calibrated=calibrated)


def _cells(
    device_name: str,
    operator: str,
    format_name: str,
    mine: Mapping[str, Calibration] = MappingProxyType({}),
) -> tuple[Calibration, ...]:
    """Return the cells of all families: the user's first, then the most accurate first."""
    shipped = {cell.id: cell for cell in shipped_cells(device_name, operator, format_name)}
    known = {**shipped, **mine}.values()
    found = (c for c in known if (c.operator, c.format) == (operator, format_name))
    return tuple(sorted(found, key=lambda cell: (cell.id not in mine, cell.mape)))


def _noted(match: CalibrationMatch, mine: Mapping[str, Calibration]) -> CalibrationMatch:
    """Return a match with a note if its cell is a user calibration."""
    cell = match.calibration
    if cell.id not in mine:
        return match
    note = f"{cell.id} is a user calibration: {cell.data_version}, {cell.data_hash}"
    return replace(match, notes=(*match.notes, note))


def _same_device(cells: Sequence[Calibration], family: str) -> CalibrationMatch:
    for cell in cells:
        if family in ("", cell.family):
            return CalibrationMatch(
                calibration=cell,
                own=True,
                quantiles=dict(cell.residual_quantiles),
                own_kernels=True,
            )
    cell = min(cells, key=_substitution_order)
    note = f"{family} has no measured {cell.operator} {cell.format} kernels; {cell.id} is used"
    apart = engine_transfers(cell.operator)
    quantiles = envelope([*(other.residual_quantiles for other in cells), apart])
    return CalibrationMatch(calibration=cell, own=False, quantiles=quantiles, notes=(note,))


def _substitution_order(cell: Calibration) -> int:
    """Return the order of preference of a cell that substitutes for another engine's."""
    known = SUBSTITUTE_FAMILIES
    return known.index(cell.family) if cell.family in known else len(known)


def _what_if(match: CalibrationMatch, changed: Sequence[str]) -> CalibrationMatch:
    """Return the match for silicon that differs from the measured one."""
    note = f"{', '.join(changed)} changed; kernel parameters are those of the original device"
    return replace(as_substitute(match, note), own_kernels=match.own_kernels)


def as_substitute(match: CalibrationMatch, note: str) -> CalibrationMatch:
    """Return a match used as a substitute, with a note and the quantiles of transfers.

    Args:
        match: Match of the kernels that are used.
        note: Note on the substitution.
    """
    return CalibrationMatch(
        calibration=match.calibration,
        own=False,
        quantiles=_transfer(match.calibration),
        notes=(*match.notes, note),
    )


def _from_donor(
    silicon: Silicon, cell: tuple[str, str, str], *, calibrated: bool
) -> CalibrationMatch | None:
    """Return a match with the parameters of a donor, None if there is no donor."""
    operator, family, format_name = cell
    measured = [key for key in load_transfers(operator) if key[1] == format_name]
    families = [family, *SUBSTITUTE_FAMILIES, *(name for name, _ in measured)]
    lender = next((name for name in families if (name, format_name) in measured), None)
    if lender is None:
        return None
    names, pairs = load_transfers(operator)[lender, format_name]
    known = catalog_silicon(names, links=operator not in KERNELS)
    if not calibrated:
        known = tuple(one for one in known if one.vendor == silicon.vendor)
    donor = donor_of(silicon, known, pairs)
    lent = load_calibrations(donor).get(f"{donor}/{operator}/{lender}/{format_name}")
    if lent is None:
        return None
    quantiles = expected_quantiles(silicon, known, pairs) or _transfer(lent)
    note = (
        f"{silicon.name} has no measured {operator} {format_name} kernels; parameters of {donor}"
        f" are used, which best predict the most similar of {len(known)} measured devices"
    )
    return CalibrationMatch(calibration=lent, own=False, quantiles=quantiles, notes=(note,))


def _transfer(cell: Calibration) -> dict[str, float]:
    """Return the quantiles for another device, at least as wide as on the measured one."""
    known = [cell.transfer_quantiles] if cell.transfer_quantiles else []
    if not known:
        # No other device has this format; use the transfers of the operator's other formats.
        same = load_calibrations(cell.device).values()
        known = [c.transfer_quantiles for c in same if c.operator == cell.operator]
    return envelope([cell.residual_quantiles, *(one for one in known if one)])
