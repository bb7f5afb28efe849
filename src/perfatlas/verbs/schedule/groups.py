"""The groups of fields that `fleet schedule` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    ClusterPower,
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SubmittedJobs,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "fleet schedule": (
        SubmittedJobs,
        SharedCluster,
        SchedulingPolicy,
        ScheduledFailures,
        ClusterPower,
    ),
}
