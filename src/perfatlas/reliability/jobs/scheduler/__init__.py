"""The scheduler: queue, placement, backfill, preemption, node failures."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.scheduler.loop import run_world
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
