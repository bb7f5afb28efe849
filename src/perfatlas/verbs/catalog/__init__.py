"""What the catalogs hold, as plain data."""

from __future__ import annotations

from perfatlas.verbs.catalog.facts import CATALOGS

__all__ = [
    "CATALOGS",
]
