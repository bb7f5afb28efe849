"""Inputs, launches and float64 references of the kernels; they need the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.kernels.runs.table import prepared as prepared, run_of as run_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
