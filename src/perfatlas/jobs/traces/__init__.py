"""Readers of job traces and tables of jobs and failures."""

from __future__ import annotations

from perfatlas.jobs.traces.failure_table import read_failures
from perfatlas.jobs.traces.formats import read_jobs, runs_as_jobs
from perfatlas.jobs.traces.reading import Trace

__all__ = [
    "Trace",
    "read_failures",
    "read_jobs",
    "runs_as_jobs",
]
