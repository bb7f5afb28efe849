"""Metrics of `estimate --explain`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics, metrics_of

EXPLAIN: Final = ("estimate --explain",)
ROWS: Final = ("next_bottleneck", "break_even")

declare_metrics(
    Metric(
        name="sensitivity",
        label="elasticities",
        holds="object",
        parts={
            metric.name: metric.label for metric in metrics_of("estimate") if metric.has_interval
        },
        description="By metric and factor: change of the metric in percent for 1% of the factor.",
    ),
    Metric(
        name="next_bottleneck",
        label="next bottlenecks",
        holds="rows",
        description="What limits a latency most after its first bottleneck is improved.",
    ),
    Metric(
        name="break_even",
        label="break-even values",
        holds="rows",
        description="Value of each factor, alone, at which a latency meets its target.",
    ),
    *(
        Metric(
            name=f"{rows}.metric",
            label="metric",
            holds="text",
            description="The latency.",
        )
        for rows in ROWS
    ),
    *(
        Metric(
            name=f"{rows}.field",
            label="factor",
            holds="text",
            description="Hardware field, or engine.host and engine.front for times of the engine.",
        )
        for rows in ROWS
    ),
    *(
        Metric(
            name=f"{rows}.ratio",
            label="ratio",
            unit="1",
            description=text,
        )
        for rows, text in (
            ("next_bottleneck", "Improvement of the first bottleneck."),
            ("break_even", "New value over the present one; null if none is sufficient."),
        )
    ),
    *(
        Metric(name=f"{rows}.value", label="value", description=text)
        for rows, text in (
            ("next_bottleneck", "The latency with the improvement [s]."),
            ("break_even", "New value of the field in its SI unit."),
        )
    ),
    Metric(
        name="next_bottleneck.improved",
        label="improved factor",
        holds="text",
        description="What limits the latency most without improvement.",
    ),
    Metric(
        name="next_bottleneck.elasticity",
        label="elasticity",
        unit="1",
        description="Elasticity of the latency to `field`.",
    ),
    Metric(
        name="break_even.target",
        label="target",
        description="Target of the latency [s].",
    ),
    Metric(
        name="break_even.limit",
        label="limit",
        description="The latency with the factor at its furthest value, at most 64x better [s].",
    ),
    verbs=EXPLAIN,
)
