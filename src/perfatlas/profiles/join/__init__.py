"""Profiles joined with the model: operators with their predicted times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.profiles.join.operators import (
        MeasuredOperator as MeasuredOperator,
        grouped_operators as grouped_operators,
        measured_operators as measured_operators,
        short_name as short_name,
    )
    from perfatlas.profiles.join.predicted import (
        NO_PREDICTION as NO_PREDICTION,
        Prediction as Prediction,
        predictions as predictions,
    )
    from perfatlas.profiles.join.retimed import RATIOS as RATIOS, retiming as retiming
    from perfatlas.profiles.join.rows import measured_rows as measured_rows
    from perfatlas.profiles.join.systems import system_of as system_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
