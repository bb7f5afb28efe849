"""Goodput: the productive share of the time of a job under failures."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.answer import goodput, goodput_spares
    from perfatlas.verbs.goodput.fleet_answer import (
        FleetRun, StrategyFrontier, fleet_goodput, goodput_frontier,
    )
    from perfatlas.verbs.goodput.blocks import goodput_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
