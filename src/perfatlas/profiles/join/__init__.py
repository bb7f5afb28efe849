"""Profiles joined with the model: operators with their predicted times."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.join.operators import (
        MeasuredOperator, grouped_operators, measured_operators, short_name,
    )
    from perfatlas.profiles.join.predicted import NO_PREDICTION, Prediction, predictions
    from perfatlas.profiles.join.retimed import RATIOS, retiming
    from perfatlas.profiles.join.rows import measured_rows
    from perfatlas.profiles.join.systems import system_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
