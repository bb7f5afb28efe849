"""Traffic through an engine, simulated."""

from __future__ import annotations

from perfatlas.verbs.simulate.answer import Simulation, simulate, split_fields
from perfatlas.verbs.simulate.page import COLOURS, STYLE, SimulatedRun, traffic_page
from perfatlas.verbs.simulate.request_rate import max_request_rate

__all__ = [
    "COLOURS",
    "STYLE",
    "SimulatedRun",
    "Simulation",
    "max_request_rate",
    "simulate",
    "split_fields",
    "traffic_page",
]
