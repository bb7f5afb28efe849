"""Metrics of the accuracy of number formats."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

ACCURACY: Final = reported_by(
    Metric(
        name="accuracy_delta",
        label="change of the benchmark",
        short="accuracy delta",
        unit="1",
        shown="points",
        better="higher",
        has_interval=True,
        verbs=("estimate", "accuracy", "search"),
        asked_with={"benchmark": "mmlu"},
        description=(
            "Points of the benchmark, quantized minus bf16; predicted from the noise of the"
            " formats and published pairs."
        ),
    ),
    Metric(
        name="perplexity_ratio",
        label="perplexity over that of bf16",
        short="perplexity ratio",
        unit="1",
        better="lower",
        has_interval=True,
        description="Perplexity of the quantized model over that in bf16, on WikiText-2.",
    ),
    verbs=("accuracy",),
)
