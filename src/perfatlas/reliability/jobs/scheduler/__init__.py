"""The scheduler: queue, placement, backfill, preemption, node failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.scheduler.loop import run_world as run_world
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
