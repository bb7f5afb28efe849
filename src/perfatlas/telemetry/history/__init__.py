"""Histories of failures and repairs: one columnar form for all logs."""

from __future__ import annotations

from perfatlas.telemetry.history.exposure import JOB, parts_per_node, utc, watches_of
from perfatlas.telemetry.history.facts import history_facts
from perfatlas.telemetry.history.history import (
    EFFECT,
    FAILURE,
    KINDS,
    NOT_TOLD,
    NOTICE,
    OVERHEAD,
    PLANNED,
    UNCLEAR,
    Event,
    History,
    HistoryBuilder,
    Labels,
    joined,
)
from perfatlas.telemetry.history.history_table import read_history, write_history
from perfatlas.telemetry.history.hostlist import count_hosts, expand_hosts, lone_host
from perfatlas.telemetry.history.job_runs import UNFINISHED, JobRuns, Run, RunsBuilder, why_no_run
from perfatlas.telemetry.history.lifetimes import Lifetimes, lifetimes
from perfatlas.telemetry.history.survival_intervals import (
    Repair,
    Spells,
    Watch,
    failure_spells,
    repair_times,
)
from perfatlas.telemetry.history.xid_codes import xid_code, xid_meaning

__all__ = [
    "EFFECT",
    "FAILURE",
    "JOB",
    "KINDS",
    "NOTICE",
    "NOT_TOLD",
    "OVERHEAD",
    "PLANNED",
    "UNCLEAR",
    "UNFINISHED",
    "Event",
    "History",
    "HistoryBuilder",
    "JobRuns",
    "Labels",
    "Lifetimes",
    "Repair",
    "Run",
    "RunsBuilder",
    "Spells",
    "Watch",
    "count_hosts",
    "expand_hosts",
    "failure_spells",
    "history_facts",
    "joined",
    "lifetimes",
    "lone_host",
    "parts_per_node",
    "read_history",
    "repair_times",
    "utc",
    "watches_of",
    "why_no_run",
    "write_history",
    "xid_code",
    "xid_meaning",
]
