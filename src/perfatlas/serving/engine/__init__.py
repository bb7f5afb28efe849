"""The event loop: steps, arrivals, routing, failures and scaling of replicas."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.engine.events import ASKS, advance
    from perfatlas.serving.engine.outages import CRASH, DRAIN, RETURN
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
