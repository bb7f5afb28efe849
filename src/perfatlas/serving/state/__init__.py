"""The state of a simulation as arrays, and how its parts are compiled."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.state.columns import Rows, SimulationState
    from perfatlas.serving.state.member_heap import NODE, drop, put
    from perfatlas.serving.state.rows import (
        BLOCK, CLOCK, DOOR, DRAINING, ENDS, FAILURE_EVENT, FAULT, FETCHED, HANDED, LOADED, LOCAL,
        LOSS, LOST, NEVER, NO_INDEX, OFF, OUT, REJECTED, REPLICA, REQUEST, SCALER, SCHEDULER,
        SESSION, TIER_BLOCK, STARTING, TIER, TRAVEL, TRAVELLING, TURN, UP, SchedulerState,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
