"""Run traffic through replicas of engines."""

from __future__ import annotations

from perfatlas.serving.run.simulate import run_fleet

__all__ = [
    "run_fleet",
]
