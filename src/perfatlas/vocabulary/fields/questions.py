"""What each verb can be asked: its groups of fields."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields.replicas import KvOffloading, ReplicaOperation
from perfatlas.vocabulary.fields.rows import Field, fields_of
from perfatlas.vocabulary.fields.scenario import (
    Batch,
    CachedPrefix,
    Formats,
    Lengths,
    Limits,
    Plan,
    Pools,
    Serving,
)
from perfatlas.vocabulary.fields.subject import Subject
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
