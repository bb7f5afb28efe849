"""The groups of fields that each verb accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    Plan,
    Pools,
    Serving,
)
from perfatlas.vocabulary.fields.schedule import (
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SubmittedJobs,
)
from perfatlas.vocabulary.fields.subject import ClockChoice, Subject, SystemChoice, TierChoice
from perfatlas.vocabulary.fields.traffic import (
    Arrivals,
    Objectives,
    Scheduling,
    SimulatedServing,
)

if TYPE_CHECKING:
    from collections.abc import Collection

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
    "kernel gemm": (SystemChoice, GemmShape, KernelChoice, TierChoice, ClockChoice),
    "kernel attention": (SystemChoice, AttentionShape, KernelChoice, TierChoice, ClockChoice),
    "kernel moe": (SystemChoice, MoeShape, KernelChoice, TierChoice, ClockChoice),
    "collective": (SystemChoice, CollectiveShape, TierChoice, CollectiveKernels),
}


def canonical_name(name: str, known: Collection[str]) -> str:
    """Return our name for a field that another tool names differently, "" if unknown.

    Args:
        name: Such as "tensor_parallel_size", with underscores or dashes.
        known: Our names to search.

    Example:
        >>> from perfatlas.vocabulary.fields import canonical_name
        >>> canonical_name("tensor-parallel-size", ("tp", "pp"))
        'tp'
    """
    plain = name.strip().lower().replace("-", "_")
    for verb in QUESTIONS:
        for field in verb_fields(verb).values():
            if field.name in known and plain in field.row.elsewhere:
                return field.name
    return ""


def verb_fields(verb: str) -> dict[str, Field]:
    """Return the fields of a verb by name.

    Args:
        verb: Name of the verb, such as "estimate".

    Example:
        >>> from perfatlas.vocabulary.fields import verb_fields
        >>> verb_fields("estimate")["isl"].default
        1024
    """
    return fields_of(*QUESTIONS[verb])
