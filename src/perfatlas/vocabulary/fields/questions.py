"""What each verb can be asked: its groups of fields."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields.operators import (
    AttentionShape,
    CollectiveKernels,
    CollectiveShape,
    GemmShape,
    KernelChoice,
    MoeShape,
)
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
from perfatlas.vocabulary.fields.subject import ClockChoice, Subject, SystemChoice, TierChoice
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
    "kernel gemm": (SystemChoice, GemmShape, KernelChoice, TierChoice, ClockChoice),
    "kernel attention": (SystemChoice, AttentionShape, KernelChoice, TierChoice, ClockChoice),
    "kernel moe": (SystemChoice, MoeShape, KernelChoice, TierChoice, ClockChoice),
    "collective": (SystemChoice, CollectiveShape, TierChoice, CollectiveKernels),
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
