"""Calibrations whose measured times include the quantization of the activation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.measurements.tables import QUANTIZED_INSIDE

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import CalibrationMatch


def holds_quantization(match: CalibrationMatch) -> bool:
    """Return whether the measured times of a calibration include quantizing the activation.

    Args:
        match: The calibration of an operator on a device.
    """
    cell = match.calibration
    return cell.operator == "gemm" and cell.format in QUANTIZED_INSIDE
