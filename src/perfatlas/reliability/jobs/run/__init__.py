"""Simulation of jobs on a cluster, and its results."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.run.outcome import ScheduleOutcome
    from perfatlas.reliability.jobs.run.simulate import measured_jobs, schedule, waiting_growth
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
