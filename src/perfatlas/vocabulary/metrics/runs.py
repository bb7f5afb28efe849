"""Metrics of runs: load, warm-up and state over time of a simulation, summary of a table."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by
from perfatlas.vocabulary.metrics.serving import SIMULATE

STEADY: Final = (*SIMULATE, "fleet schedule")
STEADY_STATE: Final = reported_by(
    Metric(
        name="stable_probability",
        label="probability of a stable load",
        short="P(stable)",
        shown="share",
        better="higher",
        description="Probability that the capacity exceeds the offered rate, by the interval of"
        " step times; only where its slow end overloads the deployment.",
    ),
    Metric(
        name="attainment_probability",
        label="P(90% or more meet the SLOs)",
        short="P(90% in SLOs)",
        shown="share",
        better="higher",
        description="Probability that at least 90% of the requests meet all SLOs, by the interval"
        " of step times; only where one end of it meets that and the other does not.",
    ),
    Metric(
        name="capacity_requests_per_s",
        label="capacity [requests/s]",
        short="capacity",
        better="higher",
        description="Requests/s that the deployment completes when it never runs out of requests.",
    ),
    Metric(
        name="offered_load",
        label="offered rate over capacity",
        short="load",
        shown="share",
        verbs=STEADY,
        description="Offered request rate over capacity; above 1 the queue grows without bound.",
    ),
    Metric(
        name="stability",
        label="stability",
        holds="text",
        verbs=STEADY,
        description="Either stable, near capacity (within 3% of it) or overloaded: from the offered"
        " rate and the capacity; undecided where jobs above the capacity leave no growing queue.",
    ),
    Metric(
        name="warm_up_requests",
        label="warm-up requests",
        holds="count",
        description="First requests that are warm-up by MSER-5; left out unless num_requests is"
        " set.",
    ),
    Metric(
        name="measured_requests",
        label="measured requests",
        holds="count",
        description="Requests between the warm-up and the time when no more arrive.",
    ),
    Metric(
        name="precision_reached",
        label="precision reached",
        better="higher",
        holds="flag",
        verbs=STEADY,
        description="Whether the half-widths are within sampling_precision.",
    ),
    verbs=SIMULATE,
)
SERIES: Final = reported_by(
    Metric(
        name="series.seed",
        label="seed",
        holds="count",
        description="Seed of the run.",
    ),
    Metric(
        name="series.bin_width_s",
        label="width of a bin",
        description="Width of a bin.",
    ),
    Metric(
        name="series.time_s",
        label="time",
        holds="numbers",
        description="Start of each bin.",
    ),
    Metric(
        name="series.running_requests",
        label="running requests",
        holds="numbers",
        description="Running requests, mean per bin.",
    ),
    Metric(
        name="series.running_requests_max",
        label="running requests, max",
        holds="numbers",
        description="Running requests, maximum per bin.",
    ),
    Metric(
        name="series.waiting_requests",
        label="waiting requests",
        holds="numbers",
        description="Waiting requests, mean per bin.",
    ),
    Metric(
        name="series.waiting_requests_max",
        label="waiting requests, max",
        holds="numbers",
        description="Waiting requests, maximum per bin.",
    ),
    Metric(
        name="series.kv_used_share",
        label="KV cache in use",
        shown="share",
        holds="numbers",
        description="Fraction of the KV cache in use, mean per bin.",
    ),
    Metric(
        name="series.kv_used_share_max",
        label="KV cache in use, max",
        shown="share",
        holds="numbers",
        description="Fraction of the KV cache in use, maximum per bin.",
    ),
    Metric(
        name="series.serving_replicas",
        label="replicas in service",
        holds="numbers",
        description="Replicas in service, mean per bin.",
    ),
    Metric(
        name="series.deployment_power_w",
        label="power of all GPUs",
        holds="numbers",
        description="Power of all GPU boards together, mean per bin.",
    ),
    Metric(
        name="series.deployment_power_max_w",
        label="power of all GPUs, max",
        holds="numbers",
        description="Power of all GPU boards together, maximum per bin.",
    ),
    verbs=SIMULATE,
)
TABLES: Final = ("--table",)
TABLE: Final = reported_by(
    Metric(
        name="rows",
        label="rows",
        holds="count",
        verbs=(*TABLES, "compare"),
        rows_of=("compare",),
        description="Number of rows in the table; of compare, a row per scenario.",
    ),
    Metric(
        name="answered",
        label="answered rows",
        holds="count",
        description="Number of rows with an answer.",
    ),
    Metric(
        name="failed",
        label="rows with an error",
        holds="count",
        description="Number of rows with an error.",
    ),
    Metric(
        name="rows_in_tier_bound",
        label="rows in tier bound",
        holds="count",
        description="Number of rows whose times are lower limits and whose rates are upper limits.",
    ),
    Metric(
        name="elapsed_s",
        label="elapsed time",
        better="lower",
        description="Wall time of the run.",
    ),
    Metric(
        name="output",
        label="output",
        holds="text",
        description="Output file.",
    ),
    Metric(
        name="operators_priced",
        label="operators priced",
        holds="count",
        description="Operator shapes over all rows of estimate.",
    ),
    Metric(
        name="distinct_shapes",
        label="distinct shapes",
        holds="count",
        description="Distinct operator shapes; each is priced once.",
    ),
    verbs=TABLES,
)
RUNS: Final = (*STEADY_STATE, *SERIES, *TABLE)
