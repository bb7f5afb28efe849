"""Budgets of the shipped calibrations: the error each cell may have, and why."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas.files import write_atomic
from perfatlas.lab.cells import MEASURED_DEVICES
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADROOM: Final = 1.02  # a refit of the same rows may end elsewhere
STEPS: Final = 1000  # a budget is a whole number of tenths of a percent
BUDGET_HEADER: Final = (
    "# Largest MAPE each shipped calibration may have on its own rows. A test fails where the\n"
    "# `mape` stored in data/calibrations is above it. A budget that is raised says why: `reason`\n"
    '# opens with the budget it is for ("11.3 %: ..."), so neither moves without the other.\n'
    "# perfatlas.lab.scoring.budgets.write_budgets() adds new cells, drops those that are gone\n"
    "# and lowers what has improved; it never raises.\n\n"
)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one cell may be off.

    Args:
        mape: Largest mean absolute percentage error, as a fraction.
        reason: The budget in per cent, a colon, and why it is what it is.
    """

    mape: float
    reason: str

    @property
    def label(self) -> str:
        """What the reason has to open with."""
        return f"{100 * self.mape:.1f} %: "


def budget_path() -> Path:
    """Return the file of the shipped budgets."""
    return Path(__file__).parents[2] / "data" / "validation" / "kernel_budgets.toml"


def read_budgets(path: Path | None = None) -> dict[str, Budget]:
    """Return the budget of every cell by id.

    Args:
        path: The file; the shipped one by default.

    Raises:
        InvalidSpecError: An entry whose reason is not for its budget.
    """
    document = tomllib.loads((path or budget_path()).read_text("utf-8"))
    budgets = {name: Budget(**entry) for name, entry in document.items()}
    for name, budget in budgets.items():
        if not budget.reason.startswith(budget.label) or budget.reason == budget.label.strip():
            raise InvalidSpecError(
                f"budget of {name!r} is {budget.mape:.4f} but its reason is {budget.reason!r};"
                f" a reason opens with {budget.label!r} and says why"
            )
    return budgets


def shipped_errors() -> dict[str, float]:
    """Return the stored MAPE of every shipped calibration by id."""
    return {
        name: one.mape
        for device in MEASURED_DEVICES
        for name, one in load_calibrations(device).items()
    }


def budget_for(mape: float) -> float:
    """Return the budget of a freshly fitted cell: its error and 2 % of it, in tenths of a percent.

    Args:
        mape: Stored error.

    Example:
        >>> from perfatlas.lab.scoring.budgets import budget_for
        >>> budget_for(0.0853)
        0.088
    """
    return math.ceil(round(STEPS * HEADROOM * mape, 6)) / STEPS


def drifted(budgets: Mapping[str, Budget], errors: Mapping[str, float]) -> list[str]:
    """Return a sentence for every cell above its budget, without one, or gone.

    Args:
        budgets: By id.
        errors: MAPE by id.
    """
    renew = "run perfatlas.lab.scoring.budgets.write_budgets()"
    found = [
        f"{name}: MAPE {100 * mape:.2f} % is above its budget {100 * budgets[name].mape:.1f} %"
        for name, mape in sorted(errors.items())
        if name in budgets and mape > budgets[name].mape
    ]
    found += [f"{name}: no budget; {renew}" for name in sorted(set(errors) - set(budgets))]
    found += [f"{name}: budget of no cell; {renew}" for name in sorted(set(budgets) - set(errors))]
    return found


def renewed_budgets(
    budgets: Mapping[str, Budget], errors: Mapping[str, float], reason: str
) -> dict[str, Budget]:
    """Return budgets with new cells added, gone cells dropped and improved cells lowered.

    Args:
        budgets: By id.
        errors: MAPE by id.
        reason: Why the new and the lowered ones are what they are.
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
        reason: For new and lowered budgets.
    """
    path = path or budget_path()
    known = read_budgets(path) if path.is_file() else {}
    renewed = renewed_budgets(known, shipped_errors(), reason)
    lines = [
        f"{json.dumps(name)} = {{ mape = {one.mape!r}, reason = {json.dumps(one.reason)} }}\n"
        for name, one in renewed.items()
    ]
    write_atomic(path, BUDGET_HEADER + "".join(lines))
