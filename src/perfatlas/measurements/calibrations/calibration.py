"""Calibrations: fitted parameters by device, operator, kernel family and format."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.files import read_toml
from perfatlas.measurements.calibrations import user_folder
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    "library",
)
# Families that can substitute for another: engines share DeepGEMM, CUTLASS and FlashInfer kernels.
SUBSTITUTE_FAMILIES: Final = ("vllm", "sglang", "trtllm")
USER_PROTOCOL: Final = "user measurements"  # beginning of the protocol of a user's own calibration


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


def calibration_folder() -> Path:
    """Return the folder of the shipped calibrations."""
    return Path(__file__).parents[2] / "data" / "calibrations"


@cache
def load_calibrations(device_name: str) -> dict[str, Calibration]:
    """Return the calibrations measured on a device, by id; empty if there are none.

    Example:
        >>> from perfatlas.measurements.calibrations import load_calibrations
        >>> load_calibrations("abacus")
        {}
    """
    path = calibration_folder() / f"{device_name}.toml"
    return read_calibrations(path) if path.is_file() else {}


def read_calibrations(path: Path) -> dict[str, Calibration]:
    """Return the calibrations of one file by id."""
    cells = [Calibration(**row) for row in read_toml(path).get("calibration", [])]
    return {cell.id: cell for cell in cells}


@cache
def shipped_cells(
    device_name: str, operator: str, format_name: str = ""
) -> tuple[Calibration, ...]:
    """Return the shipped cells of one operator and format, or of all formats.

    Only their tables are parsed, as all of a device take longer than most answers.
    """
    path = calibration_folder() / f"{device_name}.toml"
    tables = path.read_text("utf-8").split(TABLE)[1:] if path.is_file() else []
    named = {"operator": operator} | ({"format": format_name} if format_name else {})
    wanted = [f'\n{key} = "{value}"\n' for key, value in named.items()]
    text = "".join(TABLE + table for table in tables if all(line in table for line in wanted))
    return tuple(Calibration(**row) for row in tomllib.loads(text).get("calibration", []))


def shipped_cell(
    device_name: str, operator: str, family: str, format_name: str
) -> Calibration | None:
    """Return one shipped cell, None if there is none; only tables of its operator are parsed."""
    cells = shipped_cells(device_name, operator, format_name)
    return next((cell for cell in cells if cell.family == family), None)


def has_shipped(device_name: str) -> bool:
    """Return whether a device has shipped calibrations; nothing is parsed."""
    return (calibration_folder() / f"{device_name}.toml").is_file()


def user_calibrations(device_name: str) -> dict[str, Calibration]:
    """Return the user's calibrations of a device, by id; empty if there are none.

    Args:
        device_name: Name of the device, and of its file in the user's folder.

    Raises:
        InvalidSpecError: The file is not a calibration file of that device.
    """
    return user_cells(device_name, user_folder.user_file_stamp(device_name))


@cache
def user_file(stamp: tuple[str, int, int]) -> user_folder.UserFile:
    """Return a user's file; `stamp` identifies its version."""
    return (
        user_folder.UserFile([], ())
        if stamp == user_folder.NO_FILE
        else user_folder.read_user_file(Path(stamp[0]))
    )


@cache
def user_cells(device_name: str, stamp: tuple[str, int, int]) -> dict[str, Calibration]:
    """Return the user's calibrations of a device by id, from one version of the file."""
    cells = [Calibration(**row) for row in user_file(stamp).cells]
    for cell in cells:
        if cell.id != f"{device_name}/{cell.operator}/{cell.family}/{cell.format}":
            raise InvalidSpecError(
                f"calibration file '{stamp[0]}': {cell.id!r} is not the id of a cell of"
                f" {device_name!r}; a file may contain only cells of the device it is named after"
            )
    return {cell.id: cell for cell in cells}


def kernel_families(device_names: Iterable[str]) -> tuple[str, ...]:
    """Return the available kernel families: the shipped ones, then the user's.

    Args:
        device_names: Devices whose user calibrations may add families.
    """
    mine = (cell.family for name in device_names for cell in user_calibrations(name).values())
    return tuple(dict.fromkeys((*SUBSTITUTE_FAMILIES, *mine)))
