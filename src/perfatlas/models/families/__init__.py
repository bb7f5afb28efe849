"""One file per architecture family, found by `model_type`."""

from __future__ import annotations

from perfatlas.models.families.registry import families, family_reader

__all__ = ["families", "family_reader"]
