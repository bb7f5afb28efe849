"""The groups of fields that `fleet schedule` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary import fields

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "fleet schedule": (
        fields.SubmittedJobs,
        fields.SharedCluster,
        fields.SchedulingPolicy,
        fields.ScheduledFailures,
        fields.ClusterPower,
        fields.SitePowerFields,
    ),
}
