"""Training: operators of a step on every rank, communication, memory and pipeline schedules."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.pairs import COMPUTE_PARTS, PairParts, pair_times
    from perfatlas.training.recipe import Recipe
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
