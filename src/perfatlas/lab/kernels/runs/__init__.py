"""Inputs, launches and float64 references of the kernels; they need the extra `bench`."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.kernels.runs.table import prepared, run_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
