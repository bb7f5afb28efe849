"""The vocabulary, and the one path from a scenario to its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.scenario.answer import Answer
from perfatlas.scenario.capacity import cache_capacity
from perfatlas.scenario.collective import collective
from perfatlas.scenario.estimate import estimate
from perfatlas.scenario.frontier import frontier
from perfatlas.scenario.goodput_fields import (
    DOMAIN_NAMES,
    GOODPUT_NAMES,
    SPARE_NAMES,
    STRAGGLER_NAMES,
)
from perfatlas.scenario.kernel import kernel_attention, kernel_gemm, kernel_moe
from perfatlas.scenario.request_rate import max_request_rate
from perfatlas.scenario.schedule_fields import SCHEDULE_NAMES
from perfatlas.scenario.serving_formula import (
    ClientSide,
    Joining,
    Latencies,
    aggregated_latencies,
    at_client,
    joining_s,
    pipelined_s,
    static_latencies,
)
from perfatlas.scenario.simulate import Simulation, simulate
from perfatlas.scenario.table import estimate_table
from perfatlas.scenario.traffic import TRAFFIC_NAMES
from perfatlas.scenario.vocabulary import FIELD_NAMES, Scenario

if TYPE_CHECKING:
    from perfatlas.scenario.domain_shares import goodput_domains
    from perfatlas.scenario.fleet_run import fleet_goodput
    from perfatlas.scenario.goodput_closed import goodput
    from perfatlas.scenario.schedule_run import fleet_schedule
    from perfatlas.scenario.spare_nodes import goodput_spares
    from perfatlas.scenario.straggler_steps import goodput_stragglers

__all__ = [
    "DOMAIN_NAMES",
    "FIELD_NAMES",
    "GOODPUT_NAMES",
    "SCHEDULE_NAMES",
    "SPARE_NAMES",
    "STRAGGLER_NAMES",
    "TRAFFIC_NAMES",
    "Answer",
    "ClientSide",
    "Joining",
    "Latencies",
    "Scenario",
    "Simulation",
    "aggregated_latencies",
    "at_client",
    "cache_capacity",
    "collective",
    "estimate",
    "estimate_table",
    "fleet_goodput",
    "fleet_schedule",
    "frontier",
    "goodput",
    "goodput_domains",
    "goodput_spares",
    "goodput_stragglers",
    "joining_s",
    "kernel_attention",
    "kernel_gemm",
    "kernel_moe",
    "max_request_rate",
    "pipelined_s",
    "simulate",
    "static_latencies",
]

# the simulator of fleets loads a compiler, which an estimate does without (PEP 562)
_LATER = {
    "fleet_goodput": "perfatlas.scenario.fleet_run",
    "fleet_schedule": "perfatlas.scenario.schedule_run",
    "goodput": "perfatlas.scenario.goodput_closed",
    "goodput_domains": "perfatlas.scenario.domain_shares",
    "goodput_spares": "perfatlas.scenario.spare_nodes",
    "goodput_stragglers": "perfatlas.scenario.straggler_steps",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'perfatlas.scenario' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATER[name]), name)
