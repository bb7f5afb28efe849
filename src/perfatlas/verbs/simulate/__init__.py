"""Simulation of traffic on a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.simulate.answer import Simulation as Simulation, simulate as simulate
    from perfatlas.verbs.simulate.page import (
        SimulatedRun as SimulatedRun,
        traffic_page as traffic_page,
    )
    from perfatlas.verbs.simulate.searched_sizes import (
        max_request_rate as max_request_rate,
        required_replicas as required_replicas,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
