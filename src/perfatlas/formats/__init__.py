"""Number formats: bytes with scales, the peak they use, how activations reach them."""

from __future__ import annotations

from perfatlas.formats.catalog import Format, formats, get_format

__all__ = [
    "Format",
    "formats",
    "get_format",
]
