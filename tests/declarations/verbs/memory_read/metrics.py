"""Metrics that `memory_read` alone answers."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

METRICS: Final = declare_metrics(
    Metric(
        name="read_time_s",
        label="time of the read",
        unit="s",
        shown="scaled",
        better="lower",
        verbs=("memory_read",),
        description="Bytes over the peak bandwidth of the memory.",
    )
)
