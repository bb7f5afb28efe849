"""One inference scenario, a table of them, or a frontier over the batch."""

from __future__ import annotations

from perfatlas.verbs.estimate.answer import estimate, resolved_formats
from perfatlas.verbs.estimate.batch_frontier import frontier
from perfatlas.verbs.estimate.chart import print_frontier
from perfatlas.verbs.estimate.table import TableAnswer, estimate_table

__all__ = [
    "TableAnswer",
    "estimate",
    "estimate_table",
    "frontier",
    "print_frontier",
    "resolved_formats",
]
