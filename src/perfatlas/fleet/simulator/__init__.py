"""The simulator of one job on a fleet."""

from __future__ import annotations

from perfatlas.fleet.simulator.outcome import Outcome, exact_sum
from perfatlas.fleet.simulator.rare_outcomes import loss_probability
from perfatlas.fleet.simulator.searched_interval import chosen_interval_s
from perfatlas.fleet.simulator.simulate import simulate, simulate_until

__all__ = [
    "Outcome",
    "chosen_interval_s",
    "exact_sum",
    "loss_probability",
    "simulate",
    "simulate_until",
]
