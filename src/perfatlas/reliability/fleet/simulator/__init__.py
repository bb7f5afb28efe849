"""The simulator of one job on a fleet."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.simulator.outcome import JobOutcome, exact_sum
    from perfatlas.reliability.fleet.simulator.run import simulate, simulate_until
    from perfatlas.reliability.fleet.simulator.searched_interval import chosen_interval_s
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
