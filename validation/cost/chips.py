"""Areas of dies from those of the others, and costs of chips beside bills of materials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import chip_cost, known_dies, predicted_area_mm2
from perfatlas.hardware import resolve_system
from validation.runs.shared_data import read_table

if TYPE_CHECKING:
    from pathlib import Path

CHIPS: Final = {"h100_sxm": "H100 cost: total", "b200_sxm": "B200 cost: total"}
FURTHER: Final = {"h200_sxm": "H200 cost total"}  # no term of the model is taken from it


def areas() -> list[dict[str, Any]]:
    """Return the area of each die, predicted from all others."""
    known = known_dies()
    found = []
    for name, die in known.items():
        others = [one for other, one in known.items() if other != name]
        area = predicted_area_mm2(die, others)
        found.append(
            {
                "die": name,
                "node": die.node,
                "published_mm2": die.area_mm2,
                "predicted_mm2": area,
                "error": area / die.area_mm2 - 1.0,
            }
        )
    return found


def bills(path: Path) -> list[dict[str, Any]]:
    """Return the cost of chips beside the totals of published bills of materials.

    Args:
        path: cost/facts.csv of the shared data.
    """
    totals = {row["item"]: row["value"] for row in read_table(path)}
    found = []
    for system, item in {**CHIPS, **FURTHER}.items():
        usd, low, high = chip_cost(resolve_system(system).device).total_usd
        published = float(totals[item])
        found.append(
            {
                "chip": system,
                "published_usd": published,
                "predicted_usd": usd,
                "low_usd": low,
                "high_usd": high,
                "error": usd / published - 1.0,
                "left_out": system in FURTHER,
            }
        )
    return found
