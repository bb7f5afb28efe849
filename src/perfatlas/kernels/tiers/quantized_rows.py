"""Which calibrations hold the quantization of an activation in the times of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.measurements.tables import QUANTIZED_INSIDE

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import CalibrationMatch


def holds_quantization(match: CalibrationMatch) -> bool:
    """Return whether the activation was quantized inside the times of a calibration's rows.

    Args:
        match: The calibration of an operator on a device.
    """
    cell = match.calibration
    return cell.operator == "gemm" and cell.format in QUANTIZED_INSIDE
