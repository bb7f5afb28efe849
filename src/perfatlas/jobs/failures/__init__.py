"""Histories of node failures of a cluster."""

from __future__ import annotations

from perfatlas.jobs.failures.histories import draw_failures, no_place

__all__ = [
    "draw_failures",
    "no_place",
]
