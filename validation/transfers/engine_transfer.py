"""Transfer errors between engines on the same device, as shipped data.

Shape legend: U measured rows.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import format_toml, write_atomic
from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.hardware import resolve_system
from perfatlas.measurements import calibrations
from perfatlas.sampling import five_quantiles, seeded_subset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.fitting.cells import Cell
    from perfatlas.operators import FloatArray

SAMPLE: Final = 300  # rows per pair of engines, with equal weights
SEED: Final = 20255
DIGITS: Final = 4
HEADER: Final = (
    "# ln(measured/predicted) of one engine's kernels priced with the parameters of another's on\n"
    '# the same device, every pair of engines counted alike; operator "" pools all kernels.\n'
    "# Written by validation.transfers.write_engine_transfers from the tables of\n"
    "# aiconfigurator-core 0.12.0 (ai-dynamo/aiconfigurator, Apache-2.0).\n\n"
)


def write_engine_transfers(path: Path | None = None) -> Path:
    """Write the quantiles of every operator to the package data, and return the path.

    Args:
        path: File, by default the shipped one.
    """
    missed: dict[str, list[FloatArray]] = {}
    for operator, residual_U in _pairs():
        missed.setdefault(operator, []).append(residual_U)
    missed[calibrations.ANY_KERNEL] = [
        column for name, found in missed.items() if name in calibrations.KERNELS for column in found
    ]
    rows: list[dict[str, Any]] = [
        {
            "operator": name,
            "pairs": len(found),
            **{key: round(q, DIGITS) for key, q in five_quantiles(np.concatenate(found)).items()},
        }
        for name, found in sorted(missed.items())
    ]
    target = path or Path(str(resources.files("perfatlas").joinpath(calibrations.ENGINE_TRANSFERS)))
    write_atomic(target, HEADER + format_toml({"engine_transfer": rows}))
    calibrations.engine_transfers.cache_clear()
    return target


def _pairs() -> Iterator[tuple[str, FloatArray]]:
    """Yield operator and residuals (U,) of every cell priced with substitute kernels."""
    for name in MEASURED_DEVICES:
        calibrated = calibrations.load_calibrations(name)
        device = resolve_system(name).device
        for cell in device_cells(name):
            if cell.id not in calibrated:
                continue
            for family in _others(cell, calibrated):
                match = calibrations.find_shipped_calibration(
                    device, cell.operator, family, cell.format
                )
                if match is not None and set(match.calibration.parameters) == set(cell.ranges):
                    yield cell.operator, _residuals(cell, match.calibration.parameters)


def _others(cell: Cell, calibrated: dict[str, Any]) -> list[str]:
    """Return the families with a cell of the same operator and format on the device."""
    return sorted(
        one.family
        for one in calibrated.values()
        if (one.operator, one.format) == (cell.operator, cell.format) and one.family != cell.family
    )


def _residuals(cell: Cell, parameters: Any) -> FloatArray:  # noqa: ANN401 - a mapping of numbers
    rows = cell.load()
    index = seeded_subset(rows.measured_s.size, SAMPLE, SEED)
    predicted_s = cell.predict(np.ascontiguousarray(rows.shape_UD[index]), parameters)
    found: FloatArray = np.log(rows.measured_s[index] / predicted_s)
    return found
