"""Error budgets of the shipped calibrations."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from perfatlas.files import write_atomic
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.measurements.calibrations import load_calibrations
from validation.scoring.data_files import data_path, read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "kernel_budgets.toml"
HEADROOM: Final = 1.02  # a refit of the same rows may give another optimum
STEPS: Final = 1000  # a budget is a whole number of tenths of a percent
BUDGET_HEADER: Final = (
    "# Largest MAPE each shipped calibration may have on its own rows. A test fails where the\n"
    "# `mape` stored in data/calibrations is above it.\n"
    "# validation.scoring.budgets.write_budgets() adds new cells, drops those that are gone\n"
    "# and lowers what has improved; it never raises.\n\n"
)


def read_budgets() -> Mapping[str, float]:
    """Return the largest mean absolute percentage error of every cell by id, as a fraction."""
    return read_data(FILE)


def shipped_errors() -> dict[str, float]:
    """Return the stored MAPE of every shipped calibration by id."""
    return {
        name: calibration.mape
        for device in MEASURED_DEVICES
        for name, calibration in load_calibrations(device).items()
    }


def budget_for(mape: float) -> float:
    """Return the budget of a newly fitted cell: its error and 2% of it, in tenths of a percent.

    Args:
        mape: Stored error.

    Example:
        >>> from validation.scoring.budgets import budget_for
        >>> budget_for(0.0853)
        0.088
    """
    return math.ceil(round(STEPS * HEADROOM * mape, 6)) / STEPS


def drifted(budgets: Mapping[str, float], errors: Mapping[str, float]) -> list[str]:
    """Return a sentence for every cell above its budget, without a budget, or removed.

    Args:
        budgets: By id.
        errors: MAPE by id.
    """
    renew = "run validation.scoring.budgets.write_budgets()"
    found = [
        f"{name}: MAPE {100 * mape:.2f}% is above its budget {100 * budgets[name]:.1f}%"
        for name, mape in sorted(errors.items())
        if name in budgets and mape > budgets[name]
    ]
    found += [f"{name}: no budget; {renew}" for name in sorted(set(errors) - set(budgets))]
    found += [
        f"{name}: budget without a cell; {renew}" for name in sorted(set(budgets) - set(errors))
    ]
    return found


def renewed_budgets(budgets: Mapping[str, float], errors: Mapping[str, float]) -> dict[str, float]:
    """Return budgets with new cells added, removed cells dropped and improved cells lowered.

    Args:
        budgets: By id.
        errors: MAPE by id.
    """
    return {
        name: min(budgets.get(name, math.inf), budget_for(error))
        for name, error in sorted(errors.items())
    }


def write_budgets() -> None:
    """Write the renewed budgets of the shipped calibrations."""
    renewed = renewed_budgets(read_budgets(), shipped_errors())
    lines = [f"{json.dumps(name)} = {mape!r}\n" for name, mape in renewed.items()]
    write_atomic(data_path(FILE), BUDGET_HEADER + "".join(lines))
    read_data.cache_clear()
