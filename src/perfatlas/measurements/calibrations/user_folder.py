"""The folder of user calibrations, and validation of its files as untrusted input."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import read_toml, user_folder
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEVICE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
NO_FILE: Final = ("", 0, 0)
FIVE: Final = ("q05", "q25", "q50", "q75", "q95")
MAX_VALUE: Final = 1e18  # maximum of any field [SI]; nan also fails the comparison
WIDEST: Final = 20.0  # maximum of a quantile of ln(measured/predicted) [e-folds]
REMEDY: Final = "recreate it with `perfatlas calibrate --measurements FILE`, or delete it"
_TEXTS: Final = (
    *("id", "device", "operator", "family", "format"),
    *("protocol", "data_hash", "data_version", "fitted", "command"),
)
_ERRORS: Final = ("mape", "median_error", "p90_error", "bias")
_TABLES: Final = ("transfer_quantiles", "baselines", "excluded")


def user_calibration_folder() -> Path:
    """Return the folder of user calibrations, which is not created.

    A file `<device>.toml` in it takes precedence over shipped calibrations.
    """
    return _calibrations_in(user_folder("data"))


@cache
def _calibrations_in(folder: Path) -> Path:
    return folder / "calibrations"


def user_file_stamp(device_name: str) -> tuple[str, int, int]:
    """Return path, time and size of a device's file of user calibrations; "" if there is none.

    Args:
        device_name: Name of a device; any text.
    """
    if not DEVICE_NAME.fullmatch(device_name):
        return NO_FILE
    path = f"{user_calibration_folder()}{os.sep}{device_name}.toml"
    try:
        status = os.stat(path)  # noqa: PTH116 - called for every cell; Path.stat is five times slower
    except OSError:
        return NO_FILE
    return (path, status.st_mtime_ns, status.st_size)


class UserFile(NamedTuple):
    """A validated user calibration file."""

    cells: list[dict[str, Any]]  # Fields of each calibration
    changed: tuple[str, ...]  # Fields of the device that differ from the catalog


def read_user_file(path: Path) -> UserFile:
    """Return a user's calibration file after validating it.

    Args:
        path: A TOML file with [[calibration]] tables.

    Raises:
        InvalidSpecError: The file cannot be read, or a cell lacks a field or has an invalid one.
    """
    try:
        document = read_toml(path)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"calibration {problem}; {REMEDY}") from problem
    cells, changed = document.get("calibration", []), document.get("changed", [])
    if not isinstance(cells, list):
        raise InvalidSpecError(f"calibration file '{path}' has no [[calibration]] tables; {REMEDY}")
    if not isinstance(changed, list) or not all(isinstance(name, str) for name in changed):
        raise InvalidSpecError(f"calibration file '{path}': changed is not an array of strings")
    checked = [
        _checked(cell, f"calibration file '{path}', cell {number}")
        for number, cell in enumerate(cells, start=1)
    ]
    return UserFile(checked, tuple(changed))


def _checked(cell: object, where: str) -> dict[str, Any]:
    if not isinstance(cell, dict):
        raise InvalidSpecError(f"{where}: {repr_for_error(cell)} is not a table; {REMEDY}")
    for name in _TEXTS:
        if not isinstance(cell.get(name), str):
            raise InvalidSpecError(
                f"{where}: {name} = {repr_for_error(cell.get(name))}: expected a string"
            )
    _check_numbers(cell, _ERRORS, where)
    rows = cell.get("rows")
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise InvalidSpecError(f"{where}: rows = {repr_for_error(rows)}: expected an integer")
    tables = {name: _table(cell, name, where) for name in ("parameters", "residual_quantiles")}
    tables |= {name: _table(cell, name, where) for name in _TABLES if name in cell}
    for name in ("residual_quantiles", "transfer_quantiles"):
        if name in tables and (name == "residual_quantiles" or tables[name]):
            _check_numbers(tables[name], FIVE, f"{where}, {name}")
            _check_quantiles(tables[name], f"{where}, {name}")
    negative = [name for name, value in tables["parameters"].items() if value < 0.0]
    if negative:
        raise InvalidSpecError(f"{where}: parameter {negative[0]} is negative; {REMEDY}")
    fields = {name: cell[name] for name in (*_TEXTS, *_ERRORS, "rows")}
    return fields | tables


def _table(cell: Mapping[str, Any], name: str, where: str) -> dict[str, float]:
    values = cell.get(name)
    if not isinstance(values, dict):
        raise InvalidSpecError(
            f"{where}: {name} = {repr_for_error(values)}: expected a table of numbers"
        )
    _check_numbers(values, tuple(values), f"{where}, {name}")
    return values


def _check_numbers(values: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in names:
        value = values.get(name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is None or not number or not abs(value) <= MAX_VALUE:
            raise InvalidSpecError(f"{where}: {name} = {repr_for_error(value)}: expected a number")


def _check_quantiles(quantiles: Mapping[str, float], where: str) -> None:
    values = [quantiles[name] for name in FIVE]
    if values != sorted(values) or max(map(abs, values)) > WIDEST:
        raise InvalidSpecError(f"{where}: quantiles are not ascending or out of range; {REMEDY}")
