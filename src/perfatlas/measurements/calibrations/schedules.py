"""Calibrations of machines without kernels of an engine: one cell, fitted to whole steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.measurements.calibrations.calibration import shipped_cell
from perfatlas.measurements.calibrations.matching import CalibrationMatch, hidden_devices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray, IntArray

SCHEDULE: Final = "schedule"  # operator of the cell; its family is the kind of machine
ANY_FORMAT: Final = "any"
SYNCHRONISATION: Final = "synchronisation_s"  # of a statically scheduled or systolic machine
EFFICIENCY_KERNELS: Final = "efficiency_kernels"  # of a systolic machine: speed over its tiles
EFFICIENCY_PREFILL: Final = "efficiency_prefill"  # of its units with the rows of prompts
OVERHEAD_EXPERTS: Final = "overhead_experts_s"  # of a layer of routed experts in services
EFFICIENCY_LINKS: Final = "efficiency_links"  # of its links over their closed forms


def find_schedule(device: Device) -> CalibrationMatch | None:
    """Return the calibration of the steps of a device, None if none were measured.

    One cell has the constants of its kind of machine, fitted to whole steps, and the errors of
    steps of models left out. It prices operators and exchanges, and is not lent to other devices.

    Args:
        device: A device whose kind has such cells.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.measurements.calibrations import find_schedule
        >>> find_schedule(resolve_system("lpu").device) is None
        True
    """
    cell = (
        None
        if device.name in hidden_devices()
        else shipped_cell(device.name, SCHEDULE, device.kind, ANY_FORMAT)
    )
    if cell is None:
        return None
    changed = ", ".join(device.overridden)
    note = (
        f"{cell.id} was fitted on {device.name} before {changed} changed: its constants"
        " stay, and the error of that is not known"
    )
    return CalibrationMatch(
        calibration=cell,
        own=not changed,
        quantiles=cell.residual_quantiles,
        notes=(note,) if changed else (),
        own_kernels=True,
    )


class Schedules(NamedTuple):
    """The calibrations of devices, and their errors."""

    matches: tuple[CalibrationMatch, ...]
    match_D: IntArray  # Position in `matches`, -1 without one (D,)
    tails_D2: FloatArray  # q05 and q95 of ln(measured/predicted), 0 without a calibration (D, 2)


def find_schedules(devices: Sequence[Device]) -> Schedules:
    """Return the calibrations of the steps of devices, and their errors.

    Args:
        devices: Devices of one kind of machine (D).
    """
    matches = [find_schedule(device) for device in devices]
    has_match = np.array([calibration_match is not None for calibration_match in matches])
    tails = [
        (calibration_match.quantiles["q05"], calibration_match.quantiles["q95"])
        if calibration_match
        else (0.0, 0.0)
        for calibration_match in matches
    ]
    return Schedules(
        matches=tuple(calibration_match for calibration_match in matches if calibration_match),
        match_D=np.where(has_match, np.cumsum(has_match) - 1, -1),
        tails_D2=np.array(tails),
    )
