"""A quick check of the shipped calibrations on few rows of every cell.

Errors over all rows take minutes. These use a seeded sample, so that a test can check within
seconds that the physics model is unchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import content_hash, write_atomic
from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.sampling import error_statistics, seeded_subset
from validation.scoring.data_files import data_path, read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.fitting.cells import Cell

FILE: Final = "kernel_samples.toml"
ROWS: Final = 200
SEED: Final = 20257
ROUNDING: Final = 1e-4  # relative to a stored error
HEADROOM: Final = 1.01  # tolerance for rounding on another processor
DIGITS: Final = 4
RENEW: Final = "run validation.scoring.samples.write_samples()"
SAMPLES_HEADER: Final = (
    f"# MAPE of at most {ROWS} seeded rows of each shipped calibration, and the hash of the\n"
    "# parameters it was scored with. A test scores the same rows again: an edit of the physics\n"
    "# that changes a cell without a new fit does not pass. Written by\n"
    "# validation.scoring.samples.write_samples(), which raises a figure only for parameters\n"
    "# that are new, and their error over all rows has its budget (kernel_budgets.toml).\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The error of a sample of rows of a cell."""

    mape: float  # Mean absolute percentage error, as a fraction
    fit: str  # Hash of the parameters


def read_samples() -> dict[str, Sample]:
    """Return the stored sample of every cell by id."""
    return {name: Sample(**entry) for name, entry in read_data(FILE).items()}


def score_sample(cell: Cell, parameters: Mapping[str, float]) -> Sample:
    """Return the error of a cell's sample with given parameters.

    Args:
        parameters: Parameters, in any order.
    """
    rows = cell.load()
    index = seeded_subset(rows.measured_s.size, ROWS, SEED)
    predicted_s = cell.predict(np.ascontiguousarray(rows.shape_UD[index]), parameters)
    found = error_statistics(predicted_s, rows.measured_s[index])
    stated = json.dumps({name: parameters[name] for name in sorted(parameters)})
    return Sample(mape=round(found.mape, DIGITS), fit=content_hash(stated)[:23])


def device_samples(device: str) -> dict[str, Sample]:
    """Return newly scored samples of a device's shipped calibrations by id.

    Args:
        device: Catalog name of a calibrated device.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    shipped = load_calibrations(device)
    return {
        cell.id: score_sample(cell, shipped[cell.id].parameters)
        for cell in device_cells(device)
        if cell.id in shipped
    }


def moved(stored: Mapping[str, Sample], found: Mapping[str, Sample]) -> list[str]:
    """Return a sentence for every cell with a changed or missing sample.

    Args:
        stored: By id.
        found: New samples.
    """
    lines = []
    for name, now in sorted(found.items()):
        before = stored.get(name)
        if before is None:
            lines.append(f"{name}: no sample is stored; {RENEW}")
        elif before.fit != now.fit:
            lines.append(f"{name}: the sample was scored with other parameters; {RENEW}")
        elif now.mape > HEADROOM * before.mape + ROUNDING:
            lines.append(
                f"{name}: MAPE of {ROWS} rows {100 * now.mape:.2f}%, was {100 * before.mape:.2f}%:"
                " the physics got worse with the same parameters; fix it or fit the cell again"
            )
        elif HEADROOM * now.mape + ROUNDING < before.mape:
            lines.append(
                f"{name}: MAPE of {ROWS} rows {100 * now.mape:.2f}%, was {100 * before.mape:.2f}%:"
                f" better with the same parameters; {RENEW}"
            )
    return lines


def renewed_samples(stored: Mapping[str, Sample], found: Mapping[str, Sample]) -> dict[str, Sample]:
    """Return the samples to store: new ones, but for unchanged parameters the lower of both.

    Args:
        stored: By id.
        found: New samples of all cells.
    """
    kept: dict[str, Sample] = {}
    for name, now in sorted(found.items()):
        before = stored.get(name)
        worse = before is not None and before.fit == now.fit and now.mape > before.mape
        kept[name] = before if worse and before is not None else now
    return kept


def write_samples() -> None:
    """Write the renewed samples of the shipped calibrations.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    found: dict[str, Sample] = {}
    for device in MEASURED_DEVICES:
        found |= device_samples(device)
    lines = [
        f"{json.dumps(name)} = {{ mape = {sample.mape!r}, fit = {json.dumps(sample.fit)} }}\n"
        for name, sample in renewed_samples(read_samples(), found).items()
    ]
    write_atomic(data_path(FILE), SAMPLES_HEADER + "".join(lines))
    read_data.cache_clear()
