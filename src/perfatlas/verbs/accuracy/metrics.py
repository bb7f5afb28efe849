"""Metrics that `accuracy` alone answers."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

SQNR: Final = {
    "weights": "Signal over quantization noise of weights, Student t of five degrees of freedom.",
    "activations": "Signal over quantization noise of activations, with outlier channels.",
    "kv": "Signal over quantization noise of the KV cache, with outlier channels.",
    "stream": "Signal over accumulated noise at the end of the residual stream.",
}

RESULTS: Final = (
    *("accuracy_delta", "accuracy_delta_low", "accuracy_delta_high"),
    *("perplexity_ratio", "perplexity_ratio_low", "perplexity_ratio_high"),
    *("repeated_spread", "difference", "standing"),
    *(f"{name}_sqnr_db" for name in SQNR),
)

declare_metrics(
    *(
        Metric(
            name=f"{name}_sqnr_db",
            label=f"SQNR of {'the residual stream' if name == 'stream' else name}",
            short=f"SQNR {name}",
            unit="dB",
            better="higher",
            description=text,
        )
        for name, text in SQNR.items()
    ),
    Metric(
        name="repeated_spread",
        label="spread of repeated evaluations",
        short="repeated spread",
        unit="1",
        shown="points",
        description=(
            "Standard deviation of a difference between two evaluations of one model, in points of"
            " the benchmark."
        ),
    ),
    Metric(
        name="difference",
        label="difference",
        holds="text",
        description="Whether it is a loss or a gain, none within 90% of repeated evaluations.",
    ),
    Metric(
        name="standing",
        label="support",
        holds="text",
        description=(
            "Support of the prediction: exact without quantization; published where pairs have"
            " the format and method; extrapolated with a wider interval; declined without values."
        ),
    ),
    verbs=("accuracy",),
)
