"""Fits and scores of power: kernel watts, sustained loads and served models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.power.loads import fit_loads, read_loads, score_loads, shipped_values
    from validation.power.readings import fit_kernels, kernel_watts, sample_counts
    from validation.power.scores import Watts, fit_factors, held_out, power_error
    from validation.power.served import ServedPower, scenario_of, served_power
    from validation.power.splits import fold_of, power_splits
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
