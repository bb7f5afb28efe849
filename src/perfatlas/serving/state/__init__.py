"""The state of a simulation as arrays, and how its parts are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.serving.state.columns import Rows as Rows, SimulationState as SimulationState
    from perfatlas.serving.state.member_heap import NODE as NODE, drop as drop, put as put
    from perfatlas.serving.state.rows import (
        BLOCK as BLOCK,
        CLOCK as CLOCK,
        DRAINING as DRAINING,
        ENDS as ENDS,
        FAILURE_EVENT as FAILURE_EVENT,
        FAULT as FAULT,
        FETCHED as FETCHED,
        HANDED as HANDED,
        LOADED as LOADED,
        LOCAL as LOCAL,
        LOSS as LOSS,
        LOST as LOST,
        NEVER as NEVER,
        NO_INDEX as NO_INDEX,
        OFF as OFF,
        OUT as OUT,
        REJECTED as REJECTED,
        REPLICA as REPLICA,
        REQUEST as REQUEST,
        SCALER as SCALER,
        SCHEDULER as SCHEDULER,
        SHELF as SHELF,
        STARTING as STARTING,
        STOCK as STOCK,
        TRAVEL as TRAVEL,
        TRAVELLING as TRAVELLING,
        UP as UP,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
