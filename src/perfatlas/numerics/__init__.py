"""Number formats, and how functions are compiled; knows nothing of hardware."""

from __future__ import annotations

from perfatlas.numerics.formats import Format, formats, get_format

__all__ = ["Format", "formats", "get_format"]
