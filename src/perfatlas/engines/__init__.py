"""Serving engines as dated data; knows nothing of models."""

from __future__ import annotations

from perfatlas.engines.catalog import engine_ids, engine_names, resolve_engine
from perfatlas.engines.profile import (
    AllReduceRules,
    EngineMemory,
    EngineProfile,
    Fusion,
    HostTime,
    Overlap,
    SchedulerDefaults,
)

__all__ = [
    "AllReduceRules",
    "EngineMemory",
    "EngineProfile",
    "Fusion",
    "HostTime",
    "Overlap",
    "SchedulerDefaults",
    "engine_ids",
    "engine_names",
    "resolve_engine",
]
