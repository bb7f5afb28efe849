"""Layouts of a training job: parallel sizes and batches as columns, and their rules."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.layouts.layout import (
        RECOMPUTE_LEVELS, Layouts, distinct_rows, take_layouts,
    )
    from perfatlas.training.layouts.rules import layout_rules
    from perfatlas.training.layouts.stages import stage_layers
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
