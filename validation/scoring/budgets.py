"""Error budgets of the shipped calibrations, with reasons."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.files import write_atomic
from perfatlas.fitting.cells import MEASURED_DEVICES
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADROOM: Final = 1.02  # a refit of the same rows may give another optimum
STEPS: Final = 1000  # a budget is a whole number of tenths of a percent
BUDGET_HEADER: Final = (
    "# Largest MAPE each shipped calibration may have on its own rows. A test fails where the\n"
    "# `mape` stored in data/calibrations is above it. A raised budget is explained: its `reason`\n"
    '# starts with its budget ("11.3%: ..."), so neither moves without the other.\n'
    "# validation.scoring.budgets.write_budgets() adds new cells, drops those that are gone\n"
    "# and lowers what has improved; it never raises.\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The error budget of a cell."""

    mape: float  # Largest mean absolute percentage error, as a fraction
    reason: str  # The budget in percent, a colon, and an explanation

    @property
    def label(self) -> str:
        """Required start of the reason."""
        return f"{100 * self.mape:.1f}%: "


def budget_path() -> Path:
    """Return the file of the shipped budgets."""
    return Path(__file__).parents[1] / "data" / "kernel_budgets.toml"


def read_budgets(path: Path | None = None) -> dict[str, Budget]:
    """Return the budget of every cell by id.

    Args:
        path: The file; the shipped one by default.

    Raises:
        InvalidSpecError: A reason does not match its budget.
    """
    document = tomllib.loads((path or budget_path()).read_text("utf-8"))
    budgets = {name: Budget(**entry) for name, entry in document.items()}
    for name, budget in budgets.items():
        if not budget.reason.startswith(budget.label) or budget.reason == budget.label.strip():
            raise InvalidSpecError(
                f"budget of {name!r} is {budget.mape:.4f} but its reason is {budget.reason!r}; a"
                f" reason must start with {budget.label!r} and explain it"
            )
    return budgets


def shipped_errors() -> dict[str, float]:
    """Return the stored MAPE of every shipped calibration by id."""
    return {
        name: load_calibration.mape
        for device in MEASURED_DEVICES
        for name, load_calibration in load_calibrations(device).items()
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


def drifted(budgets: Mapping[str, Budget], errors: Mapping[str, float]) -> list[str]:
    """Return a sentence for every cell above its budget, without a budget, or removed.

    Args:
        budgets: By id.
        errors: MAPE by id.
    """
    renew = "run validation.scoring.budgets.write_budgets()"
    found = [
        f"{name}: MAPE {100 * mape:.2f}% is above its budget {100 * budgets[name].mape:.1f}%"
        for name, mape in sorted(errors.items())
        if name in budgets and mape > budgets[name].mape
    ]
    found += [f"{name}: no budget; {renew}" for name in sorted(set(errors) - set(budgets))]
    found += [
        f"{name}: budget without a cell; {renew}" for name in sorted(set(budgets) - set(errors))
    ]
    return found


def renewed_budgets(
    budgets: Mapping[str, Budget], errors: Mapping[str, float], reason: str
) -> dict[str, Budget]:
    """Return budgets with new cells added, removed cells dropped and improved cells lowered.

    Args:
        budgets: By id.
        errors: MAPE by id.
        reason: Explanation of new and lowered budgets.
    """
    renewed: dict[str, Budget] = {}
    for name, error in sorted(errors.items()):
        mape = budget_for(error)
        kept = budgets.get(name)
        if kept is not None and mape >= kept.mape:
            renewed[name] = kept
        else:
            fresh = Budget(mape=mape, reason="")
            renewed[name] = Budget(mape=mape, reason=fresh.label + reason)
    return renewed


def write_budgets(path: Path | None = None, reason: str = "as fitted") -> None:
    """Write the renewed budgets of the shipped calibrations.

    Args:
        path: The file; the shipped one by default.
        reason: Explanation of new and lowered budgets.
    """
    path = path or budget_path()
    known = read_budgets(path) if path.is_file() else {}
    renewed = renewed_budgets(known, shipped_errors(), reason)
    lines = [
        f"{json.dumps(name)} = {{ mape = {budget.mape!r}, reason = {json.dumps(budget.reason)} }}\n"
        for name, budget in renewed.items()
    ]
    write_atomic(path, BUDGET_HEADER + "".join(lines))
