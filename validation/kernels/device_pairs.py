"""Runs of one plan and load on two devices: what the newer device gains, predicted and measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]
SAME_PLAN: Final = (
    *("network", "precision", "backend", "tp", "attention_dp", "ep"),
    *("concurrency", "isl", "osl"),
)
UPGRADES: Final = (("h100_sxm", "h200_sxm"),)
FEWEST: Final = 10  # pairs of a model


def same_plans(
    rows: Sequence[Mapping[str, Any]], first: str, second: str
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return runs of one plan and load on two devices.

    Args:
        rows: Predicted and measured runs, as `predict_runs` returns them.
        second: The other one.
    """
    known = [row for row in rows if row["tpot_s"] is not None]
    base: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in known:
        if row["system"] == first:
            base.setdefault(tuple(row[name] for name in SAME_PLAN), []).append(row)
    return [
        (record, row)
        for row in known
        if row["system"] == second
        for record in base.get(tuple(row[name] for name in SAME_PLAN), ())
    ]


def upgrade_gains(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return how much shorter TPOT is on the newer device at the same plan and load, by model.

    Args:
        rows: Predicted and measured runs, as `predict_runs` returns them.

    Returns:
        By model and format with 10 pairs or more: medians of measured and predicted TPOT of the
        older over that of the newer device, and the median and 90% quantile of |predicted -
        measured| [points].
    """
    found = []
    for first, second in UPGRADES:
        groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row, two in same_plans(rows, first, second):
            gains = tuple(row[name] / two[name] for name in ("tpot_measured_s", "tpot_s"))
            groups.setdefault((two["model"], two["precision"]), []).append(gains)
        for (model, precision), pairs in sorted(groups.items()):
            if len(pairs) < FEWEST:
                continue
            measured, predicted = np.array(pairs).T
            off = 100.0 * np.abs(predicted - measured)
            found.append(
                {
                    "upgrade": f"{first} to {second}, {model} {precision}",
                    "pairs": len(pairs),
                    "measured_gain": float(np.median(measured)),
                    "predicted_gain": float(np.median(predicted)),
                    "points_median": float(np.median(off)),
                    "points_p90": float(np.quantile(off, 0.9)),
                }
            )
    return found
