"""The vocabulary, and the one path from a scenario to its answer."""

from __future__ import annotations

from perfatlas.scenario.answer import Answer
from perfatlas.scenario.capacity import cache_capacity
from perfatlas.scenario.collective import collective
from perfatlas.scenario.estimate import estimate
from perfatlas.scenario.fleet_goodput import fleet_goodput
from perfatlas.scenario.frontier import frontier
from perfatlas.scenario.goodput import goodput
from perfatlas.scenario.goodput_fields import GOODPUT_NAMES, SPARE_NAMES
from perfatlas.scenario.kernel import kernel_attention, kernel_gemm, kernel_moe
from perfatlas.scenario.request_rate import max_request_rate
from perfatlas.scenario.serving_formula import (
    Latencies,
    aggregated_latencies,
    pipelined_s,
    static_latencies,
)
from perfatlas.scenario.simulate import Simulation, simulate
from perfatlas.scenario.spares import goodput_spares
from perfatlas.scenario.table import estimate_table
from perfatlas.scenario.traffic import TRAFFIC_NAMES
from perfatlas.scenario.vocabulary import FIELD_NAMES, Scenario

__all__ = [
    "FIELD_NAMES",
    "GOODPUT_NAMES",
    "SPARE_NAMES",
    "TRAFFIC_NAMES",
    "Answer",
    "Latencies",
    "Scenario",
    "Simulation",
    "aggregated_latencies",
    "cache_capacity",
    "collective",
    "estimate",
    "estimate_table",
    "fleet_goodput",
    "frontier",
    "goodput",
    "goodput_spares",
    "kernel_attention",
    "kernel_gemm",
    "kernel_moe",
    "max_request_rate",
    "pipelined_s",
    "simulate",
    "static_latencies",
]
