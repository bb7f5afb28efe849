"""Schedule jobs on a cluster, and the results of it."""

from __future__ import annotations

from perfatlas.jobs.run.outcome import ScheduleOutcome
from perfatlas.jobs.run.simulate import schedule

__all__ = [
    "ScheduleOutcome",
    "schedule",
]
