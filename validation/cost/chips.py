"""Areas of dies from those of the others, and costs of chips beside bills of materials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import chip_cost, chip_data, interposers_of, known_dies, predicted_area_mm2
from perfatlas.hardware import resolve_system
from validation.runs.shared_data import read_table

if TYPE_CHECKING:
    from pathlib import Path

# parts of `chip_cost` of each chip, by the item that publishes them; "total" is all of them
CHIPS: Final = {
    "h100_sxm": {
        "dies": "H100 cost: logic die",
        "memory": "H100 cost: HBM3 80 GB (= total minus the other lines; page shows 1.4K)",
        "package": "H100 cost: CoWoS-S packaging",
        "total": "H100 cost: total",
    },
    "b200_sxm": {
        "dies": "B200 cost: logic dies",
        "memory": "B200 cost: HBM3e 192 GB",
        "package": "B200 cost: CoWoS-L packaging",
        "total": "B200 cost: total",
    },
    "h200_sxm": {"total": "H200 cost total"},
    "rubin": {},  # nothing is published
}
FURTHER: Final = ("h200_sxm", "rubin")  # no term of the model is taken from them
# Published packages: interposers a wafer (28: okx.com; 4 to 7 of 5.5 reticles: TrendForce, 2026-04)
# and their areas [mm2] (TrendForce, 2026)
WAFERS: Final = {"h100_sxm": "28", "5.5 reticles": "4 to 7"}
OUTLINES: Final = {"b200_sxm": 2739.0, "rubin": 3320.0, "rubin_ultra": 7470.0}
RETICLES: Final = 5.5


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
    """Return the cost of chips and their parts beside published bills of materials.

    Args:
        path: cost/facts.csv of the shared data.
    """
    totals = {row["item"]: row["value"] for row in read_table(path)}
    found = []
    for system, items in CHIPS.items():
        cost = chip_cost(resolve_system(system).device)
        for part, (usd, low, high) in {**cost.parts_usd, "total": cost.total_usd}.items():
            published = float(totals[items[part]]) if part in items else None
            found.append(
                {
                    "chip": system,
                    "part": part,
                    "published_usd": published,
                    "predicted_usd": usd,
                    "low_usd": low,
                    "high_usd": high,
                    "error": usd / published - 1.0 if published else None,
                    "left_out": system in FURTHER,
                }
            )
    return found


def interposers() -> list[dict[str, Any]]:
    """Return interposers a wafer, before and after yield, and areas beside published ones."""
    data = chip_data()
    area_mm2 = RETICLES * data["costs"]["reticle_mm2"]["value"]
    side_mm = math.sqrt(area_mm2)
    fitting, good = interposers_of((side_mm, side_mm), "cowos_l", data["package"])
    found = [
        {
            "package": "5.5 reticles",
            "per_wafer": fitting,
            "good": fitting * good,
            "published": WAFERS["5.5 reticles"],
            "area_mm2": area_mm2,
            "published_mm2": None,
        }
    ]
    for system in ("h100_sxm", *OUTLINES):
        made = chip_cost(resolve_system(system).device).package
        found.append(
            {
                "package": system,
                "per_wafer": made.per_wafer,
                "good": made.per_wafer * made.good_share,
                "published": WAFERS.get(system, ""),
                "area_mm2": made.area_mm2,
                "published_mm2": OUTLINES.get(system),
            }
        )
    return found
