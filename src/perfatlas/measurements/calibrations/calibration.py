"""Fitted parameters of one device x kernel family x format, as shipped data, and their lookup."""

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

TABLE: Final = "[[calibration]]\n"  # each cell of a file begins with it
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
# Overridden fields that leave the silicon a calibration was measured on.
KERNEL_FIELDS: Final = (
    "device.peak.",
    "device.sm_count",
    "device.dies",
    "device.exponentials_per_sm_clock",
    "device.clock.peak",
    "device.l2",
    "device.shared_memory",
    "device.memory.bandwidth",
)
LINK_FIELDS: Final = ("device.scale_up.", "node.", "fabric")
# Kernel families with measured tables whose kernels stand in for another family's: the open ones
# share DeepGEMM, CUTLASS, FlashInfer and Triton kernels.
LENDERS: Final = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One fitted cell with its evidence.

    Args:
        id: "<device>/<operator>/<family>/<format>".
        device: Device the rows were measured on.
        operator: gemm, moe, prefill_attention, decode_attention, mla_prefill, mla_decode,
            scan_prefill, scan_decode, conv_prefill, conv_decode, streaming, or a collective op.
        family: Kernel family: the engine whose kernels were measured.
        format: Format of the product, with "+<kv_format>_kv" where the cache differs.
        parameters: Name -> value [SI]; names carry units.
        rows: Rows scored.
        mape, median_error, p90_error, bias: On all rows (bias = mean ln(predicted/measured)).
        residual_quantiles: {"q05","q25","q50","q75","q95"} of ln(measured/predicted).
        transfer_quantiles: The same where this cell prices another device: what would be expected
            of its own device, had nobody measured it; empty where too few others were.
        baselines: roofline_mape and two_parameter_mape on the same rows.
        excluded: Reason -> rows left out of fit and score.
        least_shape, most_shape: Dimension -> least and largest value among the rows; empty where
            nothing is known of them.
        protocol: How the rows were measured.
        data_hash: Hash of the rows.
        data_version: Engine version of the table.
        fitted: Date of the fit.
        command: What regenerates it.
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
    """The calibration that prices an operator on a device, and how far it may be trusted.

    Args:
        calibration: The fitted cell.
        own: Measured on this device with these kernels.
        quantiles: {"q05", ..., "q95"} of ln(measured/predicted) to expect here.
        notes: What was substituted or is the user's own; empty for the shipped own cell.
        table: Version and data hash of the table whose rows correct it in tier measured; else "".
    """

    calibration: Calibration
    own: bool
    quantiles: Mapping[str, float]
    notes: tuple[str, ...] = ()
    table: tuple[str, str] = ("", "")

    @property
    def limits(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Least and largest value of every dimension the calibration has seen."""
        return self.calibration.least_shape, self.calibration.most_shape


def calibration_folder() -> Path:
    """Return the folder of the shipped calibrations."""
    return Path(__file__).parents[2] / "data" / "calibrations"


@cache
def load_calibrations(device_name: str) -> dict[str, Calibration]:
    """Return the calibrations measured on a device by id; empty where there are none.

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
    """Return the user's own calibrations of a device by id; empty where there are none.

    Args:
        device_name: Name of the device, which is that of its file in the user's folder.

    Raises:
        InvalidSpecError: The file is not a calibration file of that device.
    """
    return _user_cells(device_name, user_file_stamp(device_name))


@cache
def _user_file(stamp: tuple[str, int, int]) -> UserFile:
    """Return a user's file; `stamp` tells one version of it from the next."""
    return UserFile([], ()) if stamp == NO_FILE else read_user_file(Path(stamp[0]))


@cache
def _user_cells(device_name: str, stamp: tuple[str, int, int]) -> dict[str, Calibration]:
    cells = [Calibration(**row) for row in _user_file(stamp).cells]
    for cell in cells:
        if cell.id != f"{device_name}/{cell.operator}/{cell.family}/{cell.format}":
            raise InvalidSpecError(
                f"calibration file '{stamp[0]}': {cell.id!r} is not the id of a cell of"
                f" {device_name!r}; a file holds the cells of the device it is named after"
            )
    return {cell.id: cell for cell in cells}


def find_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return the best calibration for an operator on a device, None where nobody measured one.

    In this order: the device's own cell; the same device with another engine's kernels; the
    device it is the relative of; the parameters of a donor (`transfer.donor_of`), if this one is
    calibrated for anything or of a donor's vendor and so runs the same kernels. Each step away is
    noted and has wider quantiles. A cell the user measured takes the place of the shipped one and
    is noted with the hash of its rows.

    Args:
        device: Where the operator runs.
        operator: gemm, moe, prefill_attention, ... as in `Calibration`.
        family: Engine whose kernels run; "" takes the most accurate cell.
        format_name: Format, with "+<kv_format>_kv" where the cache differs.
    """
    return _find_for(device, (operator, family, format_name), user_file_stamp(device.name))


def kernel_families(device_names: Iterable[str]) -> tuple[str, ...]:
    """Return the kernel families to choose from: the shipped ones, then the user's own.

    Args:
        device_names: Devices whose user calibrations may add families.
    """
    mine = (cell.family for name in device_names for cell in user_calibrations(name).values())
    return tuple(dict.fromkeys((*LENDERS, *mine)))


def find_shipped_calibration(
    device: Device, operator: str, family: str, format_name: str
) -> CalibrationMatch | None:
    """Return what `find_calibration` finds where the user has no calibrations.

    Args:
        device: Where the operator runs.
        operator: As in `Calibration`.
        family: Engine whose kernels run.
        format_name: Format of the cell.
    """
    return _find_for(device, (operator, family, format_name), NO_FILE)


def _find_for(
    device: Device, cell: tuple[str, str, str], stamp: tuple[str, int, int]
) -> CalibrationMatch | None:
    silicon = silicon_of(device, links=cell[0] not in KERNELS)
    return _find(silicon, device.calibration_relative, _changed(device, cell[0]), cell, stamp)


def _changed(device: Device, operator: str) -> tuple[str, ...]:
    """Return the overridden fields that leave the silicon a calibration was measured on."""
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
        if match.calibration.id in mine:  # measured with what the device's own spec changes
            changed = tuple(name for name in changed if name not in _user_file(stamp).changed)
        return _what_if(match, changed) if changed else match
    cells = _cells(relative, operator, format_name) if relative else ()
    if cells:
        lent = _same_device(cells, family)
        return lend(
            lent, f"{device_name} has no measured {operator} kernels: those of {relative} are used"
        )
    calibrated = bool(load_calibrations(relative or device_name) or mine)
    return _from_donor(silicon, cell, calibrated=calibrated)


def _cells(
    device_name: str,
    operator: str,
    format_name: str,
    mine: Mapping[str, Calibration] = MappingProxyType({}),
) -> tuple[Calibration, ...]:
    """Return the cells of every family: the user's own, then the most accurate first."""
    shipped = {cell.id: cell for cell in shipped_cells(device_name, operator, format_name)}
    known = {**shipped, **mine}.values()
    found = (c for c in known if (c.operator, c.format) == (operator, format_name))
    return tuple(sorted(found, key=lambda cell: (cell.id not in mine, cell.mape)))


def _noted(match: CalibrationMatch, mine: Mapping[str, Calibration]) -> CalibrationMatch:
    """Return a match that says so where its cell is the user's own."""
    cell = match.calibration
    if cell.id not in mine:
        return match
    note = f"{cell.id} is your own calibration: {cell.data_version}, {cell.data_hash}"
    return replace(match, notes=(*match.notes, note))


def _same_device(cells: Sequence[Calibration], family: str) -> CalibrationMatch:
    for cell in cells:
        if family in ("", cell.family):
            return CalibrationMatch(
                calibration=cell, own=True, quantiles=dict(cell.residual_quantiles)
            )
    cell = min(cells, key=_lending_order)
    note = f"no measured {cell.operator} {cell.format} kernels of {family}: {cell.id} is used"
    apart = engine_transfers(cell.operator)
    quantiles = envelope([*(other.residual_quantiles for other in cells), apart])
    return CalibrationMatch(calibration=cell, own=False, quantiles=quantiles, notes=(note,))


def _lending_order(cell: Calibration) -> int:
    """Return the rank of a cell that lends its kernels to another engine."""
    return LENDERS.index(cell.family) if cell.family in LENDERS else len(LENDERS)


def _what_if(match: CalibrationMatch, changed: Sequence[str]) -> CalibrationMatch:
    """Return the match for silicon that is no longer the measured one."""
    return lend(
        match, f"{', '.join(changed)} changed: the kernel parameters are those of the real device"
    )


def lend(match: CalibrationMatch, note: str) -> CalibrationMatch:
    """Return a match used away from what was measured: noted, and as unsure as transfers were.

    Args:
        match: Of the kernels that are used.
        note: What they stand in for.
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
    """Return the parameters of a donor, None where nobody measured the cell for these kernels."""
    operator, family, format_name = cell
    measured = [key for key in load_transfers(operator) if key[1] == format_name]
    families = [family, *LENDERS, *(name for name, _ in measured)]
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
    expected = expected_quantiles(silicon, known, pairs)
    note = (
        f"{silicon.name} has no measured {operator} {format_name} kernels:"
        f" parameters of {donor}, the best predictor of the nearest of {len(known)} measured"
        " devices"
    )
    return CalibrationMatch(
        calibration=lent,
        own=False,
        quantiles=expected or _transfer(lent),
        notes=(note,),
    )


def _transfer(cell: Calibration) -> dict[str, float]:
    """Return quantiles for another device, never narrower than on the measured one."""
    known = [cell.transfer_quantiles] if cell.transfer_quantiles else []
    if not known:
        # Nobody else measured this format: the other formats of the operator tell how it moves.
        same = load_calibrations(cell.device).values()
        known = [c.transfer_quantiles for c in same if c.operator == cell.operator]
    return envelope([cell.residual_quantiles, *(one for one in known if one)])
