"""The event loop: steps, arrivals, routing, failures and scaling of replicas."""

from __future__ import annotations

from perfatlas.serving.engine.events import advance
from perfatlas.serving.engine.outages import CRASH, DRAIN, RETURN

__all__ = [
    "CRASH",
    "DRAIN",
    "RETURN",
    "advance",
]
