"""Flags of the scenario, shared by the commands that take one."""

from __future__ import annotations

from perfatlas.cli.flags.cache_tiers import CacheTierFlags
from perfatlas.cli.flags.operation import OperationFlags
from perfatlas.cli.flags.scenario import (
    MANY,
    SWITCH,
    Count,
    File,
    Formats,
    Limits,
    OutputFlags,
    Plan,
    ScenarioFlags,
    SimulationFlags,
    default,
    given,
)

__all__ = [
    "MANY",
    "SWITCH",
    "CacheTierFlags",
    "Count",
    "File",
    "Formats",
    "Limits",
    "OperationFlags",
    "OutputFlags",
    "Plan",
    "ScenarioFlags",
    "SimulationFlags",
    "default",
    "given",
]
