"""Kernels of devices priced by others: by date, by kind of card, and one left out.

Shape legend: U scored rows.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.fitting import SEED, error_statistics, taken
from perfatlas.fitting.cells import MEASURED_DEVICES, cells_by_key
from perfatlas.measurements.calibrations import (
    KERNELS,
    expected_quantiles,
    kernel_errors_apart,
    load_transfers,
)
from perfatlas.sampling import seeded_subset
from validation.scoring.intervals import interval_score
from validation.scoring.protocols import SAMPLE_ROWS, Kin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SPLITS: Final = "data/device_splits.toml"
DIGITS: Final = 4


@dataclass(frozen=True, kw_only=True)
class DeviceSplit:
    """Which devices predict which."""

    name: str
    known: tuple[str, ...]  # Devices that lend parameters; empty for all but the scored one
    scored: tuple[str, ...]  # Devices priced as if they had no tables

    def hidden(self, device: str) -> frozenset[str]:
        """Return the measured devices that may not lend parameters to a scored one."""
        kept = self.known or tuple(name for name in MEASURED_DEVICES if name != device)
        return frozenset(MEASURED_DEVICES) - frozenset(kept)


@cache
def split_rules() -> Mapping[str, Any]:
    """Return the shipped splits, scenarios of steps, goals and pairs of ratios."""
    text = resources.files("validation").joinpath(SPLITS).read_text("utf-8")
    return tomllib.loads(text)


def device_splits() -> tuple[DeviceSplit, ...]:
    """Return the splits of the shipped file.

    Example:
        >>> from validation.scoring import device_splits
        >>> [split.name for split in device_splits()]
        ['by date', 'server to cards', 'one left out']
    """
    return tuple(
        DeviceSplit(name=row["name"], known=tuple(row["known"]), scored=tuple(row["scored"]))
        for row in split_rules()["split"]
    )


def kernel_split_scores(
    operators: Sequence[str] = (), progress: Callable[[str], None] | None = None
) -> list[dict[str, Any]]:
    """Return the errors of kernels under every split, one row per cell and scored device.

    Args:
        operators: Operators to score; all but collectives by default.
        progress: Called with the name of each cell.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    found = []
    for key, cells in sorted(cells_by_key(MEASURED_DEVICES, operators or KERNELS).items()):
        if key[0] not in KERNELS:
            continue
        kin = Kin(cells=cells)
        stored = load_transfers(key[0]).get((key[1], key[2]))
        if stored is not None:
            kin.paired.update(stored.pairs)
        for split in device_splits():
            here = (device for device in split.scored if device in cells)
            found += [_cell_row(kin, split, device, key) for device in here]
        if progress is not None:
            progress("/".join(key))
    return found


def _cell_row(
    kin: Kin, split: DeviceSplit, device: str, key: tuple[str, str, str]
) -> dict[str, Any]:
    """Return the errors of a cell with a donor's parameters; None where no lender has the cell."""
    row: dict[str, Any] = {
        "split": split.name,
        "system": device,
        "operator": key[0],
        "family": key[1],
        "format": key[2],
        "donor": "",
        "rows": 0,
        **dict.fromkeys(("mape", "bias", "inside_90", "interval_score", "width")),
    }
    hidden = split.hidden(device)
    others = [name for name in kin.others(device, family=False) if name not in hidden]
    donor = kin.donor(device, others)
    if donor is None:
        return row
    rows = kin.rows(device)
    sample = taken(rows, seeded_subset(rows.measured_s.size, SAMPLE_ROWS, SEED))
    predicted_s = kin.cells[device].predict(sample.shape_UD, donor.parameters)
    errors = error_statistics(predicted_s, sample.measured_s)
    row |= {
        "donor": donor.device,
        "rows": errors.rows,
        "mape": round(errors.mape, DIGITS),
        "bias": round(errors.bias, DIGITS),
    }
    target, *known = kin.silicon(device, *others)
    quantiles = expected_quantiles(target, known, kin.pairs(others), kernel_errors_apart(hidden))
    if quantiles:
        residual_U = np.log(sample.measured_s / predicted_s)
        low, high = quantiles["q05"], quantiles["q95"]
        inside_U = (residual_U >= low) & (residual_U <= high)
        row |= {
            "inside_90": round(float(np.mean(inside_U)), DIGITS),
            "interval_score": round(interval_score(residual_U, low, high), DIGITS),
            "width": round(exp(high - low), DIGITS),
        }
    return row
