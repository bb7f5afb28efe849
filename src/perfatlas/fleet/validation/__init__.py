"""The simulator beside closed forms, and published figures beside predictions."""

from __future__ import annotations

from perfatlas.fleet.validation.study import validate_fleet

__all__ = [
    "validate_fleet",
]
