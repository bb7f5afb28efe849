"""Number formats: bytes per element with scales, tensor-core peak, quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.formats.catalog import (
        Format as Format,
        formats as formats,
        get_format as get_format,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
