"""Energy of a cluster by category of its GPU time, and its electricity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import energy_usd
from perfatlas.quantities import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.cluster_schedules.schedule_fields import ScheduleFields

PARTS: Final[tuple[str, ...]] = (
    *("work_energy_j", "lost_work_energy_j", "stalled_energy_j", "idle_gpu_energy_j"),
    "repair_energy_j",
)
COMPUTING: Final = frozenset(("productive", "unfinished", "under_way", "lost_work"))
STALLED: Final = frozenset(("restart", "detection", "waiting"))
OF_SITE: Final = (
    "power of the site: {nodes}, times a PUE that is {pue:g} at full load; hosts draw the same at"
    " any load, and nothing on nodes out of service; a cap holds out the last nodes, whose jobs"
    " stop as at a failure, so that the GPUs of all others may compute"
)
REPAIR: Final = frozenset(("down",))
HELD: Final = "held"  # by a cap: such nodes are off


def with_energy(inputs: ScheduleFields, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a breakdown with their energy [J], unchanged without a power.

    GPUs draw `power_w` while a job computes, also work that is lost later, `repair_power_w` on
    nodes under repair, nothing on nodes that a cap holds out, and otherwise `idle_power_w`.

    Args:
        rows: GPU-hours by category.

    Limits: GPU boards; electricity counts them times the PUE, without the rest of their nodes.
    """
    if inputs.power_w is None:
        return rows
    return [{**row, "energy_j": _energy_j(inputs, row)} for row in rows]


def _energy_j(inputs: ScheduleFields, row: Mapping[str, Any]) -> float:
    watts = inputs.idle_power_w or 0.0
    if row["name"] in COMPUTING:
        watts = inputs.power_w or 0.0
    elif row["name"] in REPAIR:
        watts = inputs.repair_power_w
    elif row["name"] == HELD:
        watts = 0.0
    return float(row["gpu_hours"] * HOUR_S * watts)


def energy_results(inputs: ScheduleFields, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the cost of the cluster, its energy and its parts with their cost, where asked for.

    The parts sum to the total: jobs that compute and whose work is kept, lost work, jobs that wait,
    idle GPUs and nodes under repair.

    Args:
        rows: GPU-hours by category.
    """
    results = _gpu_costs(inputs, rows)
    if inputs.power_w is None:
        return results
    parts = dict.fromkeys(PARTS, 0.0)
    for row in rows:
        parts[_part(row["name"])] += _energy_j(inputs, row)
    total_j = sum(parts.values())
    results |= {"cluster_energy_j": total_j, **parts}
    if inputs.usd_per_kwh is not None:
        lost_j, rate = parts["lost_work_energy_j"], inputs.usd_per_kwh
        results["cluster_electricity_usd"] = energy_usd(total_j, rate, inputs.pue)
        results["lost_work_electricity_usd"] = energy_usd(lost_j, rate, inputs.pue)
    if inputs.gco2_per_kwh is not None:
        results["emitted_gco2"] = energy_usd(total_j, inputs.gco2_per_kwh, inputs.pue)
    return results


def _gpu_costs(inputs: ScheduleFields, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the cost of all GPUs of the cluster, empty without a price."""
    if inputs.usd_per_gpu_hour is None:
        return {}
    cost = inputs.usd_per_gpu_hour * sum(row["gpu_hours"] for row in rows)
    useful = sum(row["gpu_hours"] for row in rows if row["name"] == "productive")
    found = {"cost_usd": cost}
    return found | ({"usd_per_useful_gpu_hour": cost / useful} if useful else {})


def _part(name: str) -> str:
    """Return the part of the energy that a category of time belongs to."""
    if name == "lost_work":
        return "lost_work_energy_j"
    for names, part in (
        (COMPUTING, "work_energy_j"),
        (STALLED, "stalled_energy_j"),
        (REPAIR, "repair_energy_j"),
    ):
        if name in names:
            return part
    return "idle_gpu_energy_j"


def energy_notes(inputs: ScheduleFields) -> list[str]:
    """Return the assumptions on power, as sentences; empty without a power."""
    if inputs.power_w is None:
        return []
    site: tuple[str, ...] = ()
    if inputs.watches_site:
        nodes = "GPU boards alone, as no system is set" if inputs.system is None else "whole nodes"
        site = (OF_SITE.format(nodes=nodes, pue=inputs.pue or 1.0),)
    return [
        *site,
        (
            f"energy: GPU boards, {inputs.power_w:g} W while a job computes,"
            f" {inputs.idle_power_w:g} W while it waits or without a job,"
            f" {inputs.repair_power_w:g} W on nodes under repair; the rest of nodes is not included"
        ),
    ]
