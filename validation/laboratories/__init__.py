"""Runs of other laboratories, and how far steps deviate between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.laboratories.operator_spread import operator_rows, scored_sources
    from validation.laboratories.outside import (
        BATCHES, EXPLORED, HELD_OUT, half_of, outside_sources,
    )
    from validation.laboratories.predictions import SourceRuns
    from validation.laboratories.publications import all_sources
    from validation.laboratories.published_kernels import PublishedTime, published_times
    from validation.laboratories.releases import scored_releases
    from validation.laboratories.shipped import write_laboratories, write_operator_spreads
    from validation.laboratories.spread import (
        pooled, source_rows, spread_rows, support_rows, unseen_row,
    )
    from validation.laboratories.unseen_fabrics import fabric_errors, write_unseen_fabrics
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
