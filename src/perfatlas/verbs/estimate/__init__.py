"""Estimates of one inference scenario, a table of scenarios, or a batch frontier."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.estimate.answer import TableAnswer, estimate, estimate_table, explain
    from perfatlas.verbs.estimate.frontiers import Frontier, frontier
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
