"""Serving engines as dated data; knows nothing of models."""

from __future__ import annotations

from perfatlas.engines.catalog import engine_ids, engine_names, resolve_engine
from perfatlas.engines.profile import (
    EngineProfile,
)

__all__ = [
    "EngineProfile",
    "engine_ids",
    "engine_names",
    "resolve_engine",
]
