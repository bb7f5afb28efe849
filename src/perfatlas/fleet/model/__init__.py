"""A fleet and what fails in it: components, causes, strategies, files, catalog."""

from __future__ import annotations

from perfatlas.fleet.model.catalog import (
    PublishedRate,
    find_duration,
    find_rate,
    published_durations,
    published_rates,
)
from perfatlas.fleet.model.checks import cause_rate_per_s, check_fleet, check_strategy
from perfatlas.fleet.model.facts import ages_said, fleet_facts, mean_repair_s
from perfatlas.fleet.model.memoryless import memories
from perfatlas.fleet.model.model import (
    Cause,
    Fleet,
    Job,
    Lemons,
    Level,
    Maintenance,
    Reach,
    Repair,
    RepairStage,
    Restart,
    Shrink,
    Spares,
    Strategy,
    collective_init_s,
    one_cause,
)
from perfatlas.fleet.model.packing import Packed, fleet_rate_per_s, grown, needed_level, pack, ticks
from perfatlas.fleet.model.shipped import (
    read_evidence,
    resolve_fleet,
    resolve_strategies,
    shipped_fleets,
)
from perfatlas.fleet.model.strategy_file import StrategyTable, choose

__all__ = [
    "Cause",
    "Fleet",
    "Job",
    "Lemons",
    "Level",
    "Maintenance",
    "Packed",
    "PublishedRate",
    "Reach",
    "Repair",
    "RepairStage",
    "Restart",
    "Shrink",
    "Spares",
    "Strategy",
    "StrategyTable",
    "ages_said",
    "cause_rate_per_s",
    "check_fleet",
    "check_strategy",
    "choose",
    "collective_init_s",
    "find_duration",
    "find_rate",
    "fleet_facts",
    "fleet_rate_per_s",
    "grown",
    "mean_repair_s",
    "memories",
    "needed_level",
    "one_cause",
    "pack",
    "published_durations",
    "published_rates",
    "read_evidence",
    "resolve_fleet",
    "resolve_strategies",
    "shipped_fleets",
    "ticks",
]
