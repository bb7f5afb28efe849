"""Metrics of `goodput spares`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

SPARE_NODES: Final = reported_by(
    Metric(
        name="blocked_probability",
        label="fraction of time blocked",
        shown="share",
        better="lower",
        description="Fraction of time in which the job waits for a node.",
    ),
    Metric(
        name="blocked_probability_one_fewer",
        label="fraction of time blocked with one spare fewer",
        shown="share",
        better="lower",
        description="The same with one spare fewer.",
    ),
    Metric(
        name="nodes_under_repair",
        label="average nodes under repair",
        better="lower",
        description="Nodes under repair, averaged over time.",
    ),
    Metric(
        name="nodes_out",
        label="average nodes out of service",
        better="lower",
        description="Nodes under repair or waiting for a crew, averaged over time.",
    ),
    verbs=("goodput spares",),
)
FORMS: Final = SPARE_NODES
