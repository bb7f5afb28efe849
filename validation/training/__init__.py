"""Training steps against published runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.training.fits import fit_training_engine
    from validation.training.moe_sources import moe_sources
    from validation.training.scale import scale_growth
    from validation.training.scores import validate_training
    from validation.training.trace import fit_to_trace, trace_comparison
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
