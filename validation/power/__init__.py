"""Fits and scores of power: kernel watts, sustained loads and served models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.power.loads import (
        fit_loads as fit_loads,
        read_loads as read_loads,
        score_loads as score_loads,
        shipped_values as shipped_values,
    )
    from validation.power.readings import (
        fit_kernels as fit_kernels,
        kernel_watts as kernel_watts,
        sample_counts as sample_counts,
    )
    from validation.power.scores import (
        Watts as Watts,
        fit_factors as fit_factors,
        held_out as held_out,
        power_error as power_error,
    )
    from validation.power.served import (
        ServedPower as ServedPower,
        scenario_of as scenario_of,
        served_power as served_power,
    )
    from validation.power.splits import fold_of as fold_of, power_splits as power_splits
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
