"""Metrics of cost, electricity and carbon."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.goodput import GOODPUT
from perfatlas.vocabulary.metrics.metric import Metric, reported_by
from perfatlas.vocabulary.metrics.serving import SERVING_VERBS

TRAIN: Final = ("train",)
PARTS: Final = {
    "gpu": "GPU, or its rent",
    "network": "network and hosts",
    "power": "power",
    "idle": "idle hours",
    "failures": "failures",
}
COST: Final = reported_by(
    Metric(
        name="usd_per_hour",
        label="cost per hour",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, *TRAIN),
        description="Cost of all GPUs of the deployment or job per hour of work.",
    ),
    Metric(
        name="usd_per_million_output_tokens",
        label="cost per million output tokens",
        short="cost/M tokens",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, "search"),
        description=(
            "Cost of the deployment per million output tokens at this traffic; prompts are"
            " included."
        ),
    ),
    Metric(
        name="usd_per_million_input_tokens",
        label="cost per million input tokens",
        short="cost/M input",
        better="lower",
        has_interval=True,
        description=(
            "Cost of the GPU time of prompts, beyond that of the decodes in their steps, per"
            " million input tokens that no prefix cache held; `estimate` leaves attention to cached"
            " tokens out."
        ),
    ),
    Metric(
        name="usd_per_million_cached_input_tokens",
        label="cost per million cached input tokens",
        short="cost/M cached",
        better="lower",
        has_interval=True,
        verbs=("estimate",),
        asked_with={"prefix": 512},
        description=(
            "Cost of the attention of prompts to tokens in a prefix cache, per million of these."
        ),
    ),
    Metric(
        name="decode_usd_per_million_output_tokens",
        label="cost of decode per million output tokens",
        short="decode cost/M",
        better="lower",
        has_interval=True,
        description=(
            "Cost per million output tokens without that of prompts: with the cost of the input"
            " tokens it sums to the cost of the deployment."
        ),
    ),
    Metric(
        name="parts_usd_per_million_output_tokens",
        label="parts of the cost of output tokens",
        short="parts of cost",
        unit="USD/million output tokens",
        holds="object",
        parts=PARTS,
        description="Parts of `usd_per_million_output_tokens`, which sum to it.",
    ),
    Metric(
        name="electricity_usd_per_hour",
        label="electricity per hour",
        short="electricity",
        better="lower",
        verbs=(*SERVING_VERBS, *TRAIN),
        asked_with={"usd_per_kwh": 0.1},
        description="Cost of `facility_power_w` per hour.",
    ),
    Metric(
        name="electricity_usd_per_million_output_tokens",
        label="electricity per million output tokens",
        short="kWh cost/M tokens",
        better="lower",
        verbs=SERVING_VERBS,
        asked_with={"usd_per_kwh": 0.1},
        description="Cost of `facility_power_w` over the output tokens.",
    ),
    Metric(
        name="electricity_usd",
        label="cost of electricity",
        short="electricity cost",
        better="lower",
        verbs=GOODPUT,
        asked_with={"power_w": 600.0, "gpus": 1024, "usd_per_kwh": 0.1},
        description="Cost of `job_energy_j`, times the PUE.",
    ),
    Metric(
        name="lost_electricity_usd",
        label="electricity of lost time",
        short="lost electricity",
        better="lower",
        verbs=GOODPUT,
        asked_with={"power_w": 600.0, "gpus": 1024, "usd_per_kwh": 0.1},
        description="Cost of `lost_energy_j`, times the PUE.",
    ),
    Metric(
        name="gco2_per_hour",
        label="carbon per hour",
        better="lower",
        verbs=(*SERVING_VERBS, *TRAIN),
        asked_with={"gco2_per_kwh": 400.0},
        description="Carbon of `facility_power_w` per hour, in CO2 equivalent.",
    ),
    Metric(
        name="gco2_per_million_output_tokens",
        label="carbon per million output tokens",
        short="gCO2e/M tokens",
        better="lower",
        asked_with={"gco2_per_kwh": 400.0},
        description="Carbon of `facility_power_w` over the output tokens, in CO2 equivalent.",
    ),
    Metric(
        name="emitted_gco2",
        label="carbon of the electricity",
        short="gCO2e",
        better="lower",
        verbs=(*GOODPUT, "fleet schedule"),
        asked_with={"power_w": 600.0, "gpus": 1024, "gco2_per_kwh": 400.0},
        description="Carbon of the energy of the job or cluster, times the PUE.",
    ),
    verbs=SERVING_VERBS,
)
