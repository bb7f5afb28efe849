"""Prices of operators on GPUs in three tiers, with bounds and evidence."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.tiers.pricing import gather_families
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
