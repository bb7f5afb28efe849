"""Kernels and collectives against measured tables and publications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from validation.kernels.blocks import validate_blocks
    from validation.kernels.measured import validate_measured
    from validation.kernels.measured_medians import UnseenScore
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
