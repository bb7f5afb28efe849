"""Estimates of one inference scenario, a table of scenarios, or a batch frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.estimate.answer import (
        TableAnswer as TableAnswer,
        estimate as estimate,
        estimate_columns as estimate_columns,
        estimate_table as estimate_table,
        explain as explain,
    )
    from perfatlas.verbs.estimate.frontiers import Frontier as Frontier, frontier as frontier
    from perfatlas.verbs.estimate.sections import (
        print_explanation as print_explanation,
        print_frontier as print_frontier,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
