"""Readers of job traces and tables of jobs and failures."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.traces.accounting import runs_as_jobs
    from perfatlas.reliability.jobs.traces.failure_table import read_failures
    from perfatlas.reliability.jobs.traces.job_table import read_job_table
    from perfatlas.reliability.jobs.traces.trace import JobTrace
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
