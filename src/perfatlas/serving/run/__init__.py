"""Simulate traffic on replicas of engines."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.run.router import ArrivingRequest, ReplicaLoads
    from perfatlas.serving.run.simulate import run_fleet
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
