"""Metrics of `kernel tune`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

KERNELS: Final = tuple(
    f"kernel tune {name}" for name in ("gemm", "grouped_gemm", "attention", "norm", "all_reduce")
)
MODEL: Final = ("kernel tune",)
TEXTS: Final = (
    ("shape", "shape", "The sizes in which shapes differ, or the operator of a model."),
    ("kernel", "kernel", "The kernel that is tuned."),
    ("design", "first design", "The design that is expected to be the fastest."),
    ("next_unit", "next unit", "What would limit the first design next."),
    (
        "default_from",
        "default from",
        "Who takes the default: an engine without a file, or a kernel.",
    ),
    (
        "default_design",
        "default",
        "What the framework takes without tuning; null if it cannot run.",
    ),
    ("tuning_advice", "advice", "Whether tuning is worth it, and what to measure."),
)
NUMBERS: Final = (
    (
        *("default_time_s", "time of the default", "default", "s"),
        "Predicted time of what the framework takes without tuning.",
    ),
    (
        *("library_time_s", "time of the libraries", "libraries", "s"),
        "Time of the kernels of engines, fitted to measured ones; null where none was measured.",
    ),
    (
        *("measured_s", "measured time", "measured", "s"),
        "Time of the first design on the GPU of this machine; null if it was not measured.",
    ),
    (
        *("gain", "gain over the default", "gain", "1"),
        "Time of the default over that of the first design.",
    ),
    (
        *("gain_if_measured", "expected gain of measuring 8", "gain of 8", "1"),
        "Expected time of the default over that of the best of the first 8 designs, if measured.",
    ),
    (
        *("speedup_if_twice_as_fast", "speedup of a twice as fast unit", "unit x 2", "1"),
        "Time of the first design over its time if the limiting unit were twice as fast.",
    ),
)
SHARES: Final = (
    ("near_share", "designs within 5%", "Share of legal designs within 5% of the first."),
    (
        *("expected_regret", "expected regret of the first"),
        "Expected time of the first design over that of the best of all, minus 1.",
    ),
    ("regret_of_8", "expected regret of the best of 8", "The same of the best of the first 8."),
    ("regret_of_16", "expected regret of the best of 16", "The same of the best of the first 16."),
    ("best_kept", "P(best tile kept)", "Probability that the best tile is among those kept."),
)

declare_metrics(
    *(
        Metric(name=name, label=label, holds="text", description=text)
        for name, label, text in TEXTS
    ),
    *(
        Metric(
            name=name,
            label=label,
            short=short,
            unit=unit,
            has_interval=name == "gain",
            description=text,
        )
        for name, label, short, unit, text in NUMBERS
    ),
    *(
        Metric(name=name, label=label, shown="share", description=text)
        for name, label, text in SHARES
    ),
    Metric(
        name="legal_designs",
        label="legal designs",
        holds="count",
        description="Designs of the search space that can be launched.",
    ),
    verbs=KERNELS,
)
declare_metrics(
    Metric(
        name="designs", label="designs", holds="rows", description="Designs, the fastest first."
    ),
    Metric(
        name="rejected", label="rejected", holds="rows", description="Rejected designs by rule."
    ),
    verbs=(*MODEL, *KERNELS),
)
declare_metrics(
    Metric(name="shapes", label="shapes", holds="rows", description="Each shape with its design."),
    verbs=MODEL,
)
