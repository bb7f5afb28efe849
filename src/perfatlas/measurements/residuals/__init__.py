"""Residuals of a physics model on measured shapes, and corrections of nearby shapes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.residuals.producers import producers_hash
    from perfatlas.measurements.residuals.quantized_rows import holds_quantization
    from perfatlas.measurements.residuals.residuals import (
        Correction, Residuals, cached_residuals, correct, no_residuals, number_groups,
        residuals_by_distance, with_rows_of,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
