"""The scheduler: queue, placement, backfill, preemption, node failures."""

from __future__ import annotations

from perfatlas.jobs.scheduler.loop import run_world

__all__ = [
    "run_world",
]
