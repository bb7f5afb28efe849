"""What each verb can be asked: its groups of fields."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields.goodput import (
    GpuDomains,
    JobFailures,
    JobOnFleet,
    MeasuredStep,
    ResilientJob,
    SparePool,
    SynchronousGpus,
)
from perfatlas.vocabulary.fields.limits import Limits
from perfatlas.vocabulary.fields.replicas import KvOffloading, ReplicaOperation
from perfatlas.vocabulary.fields.rows import Field, fields_of
from perfatlas.vocabulary.fields.scenario import (
    Batch,
    CachedPrefix,
    Formats,
    Lengths,
    Plan,
    Pools,
    Serving,
    Subject,
)
from perfatlas.vocabulary.fields.schedule import (
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SubmittedJobs,
)
from perfatlas.vocabulary.fields.traffic import (
    Arrivals,
    Objectives,
    Scheduling,
    SimulatedServing,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "estimate": (Subject, Serving, Plan, Formats, Batch, Lengths, CachedPrefix, Limits, Pools),
    "simulate": (
        *(Subject, SimulatedServing, Lengths, Arrivals, Scheduling, Objectives),
        *(ReplicaOperation, KvOffloading, Plan, Formats, Limits, Pools),
    ),
    "validate serving": (Subject, Plan, Formats, CachedPrefix, Limits),
    "goodput": (ResilientJob, JobFailures, JobOnFleet, MeasuredStep),
    "goodput spares": (SparePool,),
    "goodput domains": (GpuDomains,),
    "goodput stragglers": (SynchronousGpus,),
    "fleet schedule": (SubmittedJobs, SharedCluster, SchedulingPolicy, ScheduledFailures),
}


def fields_asked(verb: str) -> dict[str, Field]:
    """Return the fields a verb can be asked, by name.

    Args:
        verb: Such as "estimate".

    Example:
        >>> from perfatlas.vocabulary.fields import fields_asked
        >>> fields_asked("estimate")["isl"].default
        1024
    """
    return fields_of(*QUESTIONS[verb])
