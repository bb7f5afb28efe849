"""What the catalogs hold, as plain data."""

from __future__ import annotations
