"""Extrapolation errors of calibrations outside their shape range, as shipped data."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import format_toml, write_atomic
from perfatlas.fitting import fit_cell, taken
from perfatlas.fitting.cells import device_cells
from perfatlas.machines.gpu import shapes
from perfatlas.sampling import seeded_subset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray

Limits = tuple[dict[str, float], dict[str, float]]
DEVICES: Final = ("h200_sxm", "b200_sxm")
HIDDEN_OCTAVES: Final = 2.0
MIN_SPAN: Final = 4.5  # fewest octaves of a dimension for hiding rows
MIN_SEEN_ROWS: Final = 200
MIN_HIDDEN_ROWS: Final = 50
SAMPLE: Final = 6000
SEED: Final = 20253
EVALUATIONS: Final = 250
MIN_OCTAVES: Final = 0.25  # octaves: closer rows carry little information
HEADER: Final = (
    "# By how much 90% intervals widen per octave outside the shapes a calibration has seen, in\n"
    "# e-folds on each side: with it they hold 90% of the rows of outer octaves that fits did\n"
    "# not see. Written by validation.transfers.write_range_extrapolation from the\n"
    "# tables of aiconfigurator-core 0.12.0 (ai-dynamo/aiconfigurator, Apache-2.0).\n\n"
)


def range_extrapolation(operator: str) -> dict[str, float | int | str] | None:
    """Return the widening per octave of an operator, None where no dimension can be hidden.

    For every kernel family and dimension the outer two octaves are hidden, once at each end; the
    miss of a hidden row is the excess of its residual over the 90% interval of the other rows, per
    octave outside. The widening covers 90% of the misses of every dimension and end, on average.

    Args:
        operator: Calibration operator.
    """
    needed = [
        float(np.quantile(misses, 0.9))
        for device in DEVICES
        for cell in _one_format(device_cells(device, (operator,)))
        for misses in _misses(cell)
    ]
    if not needed:
        return None
    return {
        "operator": operator,
        "per_octave": round(float(np.mean(needed)), 3),
        "dimensions": len(needed),
    }


def _one_format(cells: Sequence[Cell]) -> list[Cell]:
    """Return the first cell of every kernel family."""
    chosen: dict[str, Cell] = {}
    for cell in cells:
        chosen.setdefault(cell.family, cell)
    return list(chosen.values())


def _misses(cell: Cell) -> Iterator[FloatArray]:
    """Yield, per hidden end of a dimension, the misses of rows per octave outside (U,)."""
    rows = cell.load()
    rows = taken(rows, seeded_subset(rows.measured_s.size, SAMPLE, SEED))
    least, most = shapes.shape_limits(cell.operator, rows.shape_UD)
    for name in least:
        if np.log2(most[name] / least[name]) < MIN_SPAN:
            continue
        upper: Limits = ({}, {name: most[name] / 2.0**HIDDEN_OCTAVES})
        lower: Limits = ({name: least[name] * 2.0**HIDDEN_OCTAVES}, {})
        for limits in (upper, lower):
            found = _hidden(cell, rows, limits)
            if found is not None:
                yield found


def _hidden(cell: Cell, rows: Rows, limits: Limits) -> FloatArray | None:
    first = np.zeros(rows.measured_s.size, np.int64)
    outside = shapes.octaves_outside(cell.operator, rows.shape_UD, first, [limits])
    seen, hidden = taken(rows, outside == 0.0), outside > MIN_OCTAVES
    if seen.measured_s.size < MIN_SEEN_ROWS or int(hidden.sum()) < MIN_HIDDEN_ROWS:
        return None
    parameters = fit_cell(cell, seen, evaluations=EVALUATIONS)
    known = np.log(seen.measured_s / cell.predict(seen.shape_UD, parameters))
    low, high = np.quantile(known, (0.05, 0.95))
    asked = taken(rows, hidden)
    residual = np.log(asked.measured_s / cell.predict(asked.shape_UD, parameters))
    miss: FloatArray = np.maximum(np.maximum(low - residual, residual - high), 0.0)
    return miss / outside[hidden]


def write_range_extrapolation(
    operators: Sequence[str] = tuple(shapes.AXES), path: Path | None = None
) -> Path:
    """Write the widening of operators to the package data, and return the path.

    Args:
        operators: Calibration operators.
        path: File, by default the shipped one.
    """
    rows = [row for name in operators if (row := range_extrapolation(name)) is not None]
    target = path or Path(str(resources.files("perfatlas").joinpath(shapes.BEYOND_RANGE)))
    write_atomic(target, HEADER + format_toml({"beyond": rows}))
    return target
