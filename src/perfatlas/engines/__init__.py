"""Serving engines as dated data; knows nothing of models."""

from __future__ import annotations

from perfatlas.engines.catalog import all_reduce_groups, engine_ids, engine_names, resolve_engine
from perfatlas.engines.profile import EngineProfile
from perfatlas.engines.step_error import STEP_ERRORS, StepError, step_errors
from perfatlas.engines.tokenizing import Tokenizing, tokenizing

__all__ = [
    "STEP_ERRORS",
    "EngineProfile",
    "StepError",
    "Tokenizing",
    "all_reduce_groups",
    "engine_ids",
    "engine_names",
    "resolve_engine",
    "step_errors",
    "tokenizing",
]
