"""Contents of the catalogs as plain data."""

from __future__ import annotations
