"""Metrics that `compare` alone answers."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

COMPARE: Final = ("compare",)
COMPARED: Final = (
    "ttft_s",
    "tpot_s",
    "request_latency_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "power_w",
    "energy_per_output_token_j",
    "energy_per_request_j",
    "usd_per_million_output_tokens",
    "usd_per_million_input_tokens",
)
# reported where the facility or its electricity is asked for
FACILITY: Final = (
    "facility_power_w",
    "electricity_usd_per_hour",
    "electricity_usd_per_million_output_tokens",
)
CARBON: Final = ("gco2_per_hour", "gco2_per_million_output_tokens")
PASSES: Final = ("latency_s", "throughput_per_s", "energy_per_item_j", "usd_per_million_items")
RATED: Final = (*PASSES, *COMPARED, *FACILITY, *CARBON)  # each with its ratio to the base
ACCURACY: Final = ("accuracy_delta",)  # reported where a benchmark is named

declare_metrics(
    Metric(
        name="rows.gpus",
        label="GPUs",
        holds="count",
        description="GPUs of the deployment.",
    ),
    Metric(
        name="rows.engine",
        label="engine",
        holds="text",
        description="Engine of the scenario, that of the machine where none is named.",
    ),
    Metric(
        name="rows.plan",
        label="plan",
        holds="text",
        description="Sizes of the plan above 1. Scenarios that state only a number of GPUs share"
        " one plan, if one runs all of them.",
    ),
    Metric(
        name="rows.concurrency",
        label="sequences in flight",
        short="sequences",
        holds="count",
        description="Sequences in flight over the whole deployment.",
    ),
    Metric(
        name="rows.kv_capacity_tokens",
        label="KV cache capacity",
        holds="count",
        unit="tokens",
        description="Tokens that the KV cache of a replica holds.",
    ),
    Metric(
        name="rows.label",
        label="scenario",
        holds="text",
        description="Name of a compared scenario; the first is the base.",
    ),
    Metric(
        name="rows.tier",
        label="tier",
        holds="text",
        description="Pricing tier of the scenario; times of tier bound are lower limits.",
    ),
    Metric(
        name="rows.tier_note",
        label="comparison of tiers",
        holds="text",
        description="Says that a lower limit stands beside a prediction, if the tiers of the"
        " scenario and the base differ so.",
    ),
    Metric(
        name="rows.error",
        label="error",
        holds="text",
        description="Why a scenario cannot be answered.",
    ),
    Metric(
        name="steps_difference_s",
        label="difference of the steps of a request",
        short="request difference",
        description=(
            "Time of all prefill steps and of a decode step per output token, beyond that of the"
            " base."
        ),
    ),
    Metric(
        name="steps_difference_deviation_s",
        label="its standard deviation",
        short="deviation",
        description="Standard deviation of the difference by the errors of kernels.",
    ),
    Metric(
        name="decisions",
        label="deciding measurements",
        holds="rows",
        description="Kernels whose errors make the difference most uncertain.",
    ),
    *(
        Metric(name=f"decisions.{name}", label=label, holds="text", description=text)
        for name, label, text in (
            ("case", "kernel", "Operator, sizes and number format."),
            ("system", "system", "Device to measure it on."),
            ("operators", "operators", "Operators of the steps that it is."),
            ("reason", "reason", "Why no suite of `bench run` can measure it."),
        )
    ),
    Metric(
        name="decisions.time_s",
        label="time",
        has_interval=True,
        description="Time of one execution.",
    ),
    Metric(
        name="decisions.variance_share",
        label="share of the variance",
        short="of variance",
        shown="share",
        description="Share of the variance of the difference that its error has.",
    ),
    Metric(
        name="ratios",
        label="ratios",
        holds="rows",
        description="Metrics of each compared scenario over those of the base.",
    ),
    *(
        Metric(name=f"ratios.{name}", label=label, holds="text", description=text)
        for name, label, text in (
            ("label", "scenario", "The compared scenario."),
            ("metric", "metric", "The metric, as the rows name it."),
        )
    ),
    Metric(
        name="ratios.ratio",
        label="ratio",
        has_interval=True,
        description="The metric of the scenario over that of the base. Errors of the two are taken"
        " as independent. Beside a limit, such as a time at the roofline, it has no interval; an"
        " end that is not known is 0 or null.",
    ),
    Metric(
        name="ratios.certain",
        label="certain",
        holds="flag",
        description="Whether the interval of the ratio excludes 1, so that the difference is real.",
    ),
    Metric(
        name="differences",
        label="differences",
        holds="rows",
        description="Operators of each compared scenario beside those of the base.",
    ),
    Metric(
        name="differences.label",
        label="scenario",
        holds="text",
        description="The compared scenario.",
    ),
    Metric(
        name="differences.phase",
        label="phase",
        holds="text",
        description="Phase of the request: prefill or decode.",
    ),
    Metric(
        name="differences.name",
        label="operator",
        holds="text",
        description="The operator.",
    ),
    *(
        Metric(
            name=f"differences.{name}",
            label=label,
            description=text,
        )
        for name, label, text in (
            (
                "base_time_s",
                "time in the base",
                "Time in the base: a decode step, or all prefill steps.",
            ),
            ("time_s", "time", "Time in the compared scenario, likewise."),
            ("difference_s", "difference", "Time in the scenario minus that in the base."),
        )
    ),
    *(
        Metric(name=f"differences.{name}", label=label, holds="text", description=t)
        for name, label, t in (
            ("base_bound", "bound in the base", "What bounds the operator in the base."),
            ("bound", "bound", "What bounds the operator in the compared scenario."),
        )
    ),
    verbs=COMPARE,
)
