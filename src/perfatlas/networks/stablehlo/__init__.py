"""Modules of StableHLO; the only reader that imports jaxlib."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.networks.stablehlo.program import nodes_of_file
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
