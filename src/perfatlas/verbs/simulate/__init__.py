"""Simulation of traffic on a deployment."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.simulate.answer import Simulation, simulate
    from perfatlas.verbs.simulate.blocks import SimulatedRun, traffic_page
    from perfatlas.verbs.simulate.searched_sizes import (
        max_request_rate, max_sessions, required_replicas,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
