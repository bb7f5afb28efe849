"""Metrics of power and energy: `estimate`, `simulate` and `kernel`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric
from perfatlas.vocabulary.metrics.operators import KERNELS
from perfatlas.vocabulary.metrics.serving import BOTH

ENERGY: Final = (
    Metric(
        name="power_w",
        label="power per GPU",
        short="power",
        unit="W",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=(*BOTH, *KERNELS),
        description=(
            "Mean power of a GPU board, without CPU, NICs, fans and power conversion; of a kernel,"
            " while it runs again and again."
        ),
    ),
    Metric(
        name="energy_per_output_token_j",
        label="energy per output token",
        short="J/token",
        unit="J",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=(*BOTH, "search"),
        description=(
            "Energy of all GPUs, idle ones included, over the output tokens; prefill is included."
        ),
    ),
    Metric(
        name="energy_per_request_j",
        label="energy per request",
        short="J/request",
        unit="J",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        description="Energy of all GPUs, idle ones included, over the requests.",
    ),
    Metric(
        name="node_power_w",
        label="power per node",
        short="node power",
        unit="W",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        description=(
            "AC power of a node whose GPUs all draw `power_w`: with processors, switches, NICs,"
            " memory, fans and power conversion."
        ),
    ),
    Metric(
        name="facility_power_w",
        label="power of the facility",
        short="facility power",
        unit="W",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=BOTH,
        asked_with={"pue": 1.25},
        description="Power of the nodes of all GPUs of the deployment, times the PUE.",
    ),
    Metric(
        name="electricity_usd_per_hour",
        label="electricity per hour",
        short="electricity",
        unit="USD/hour",
        shown="money",
        better="lower",
        verbs=BOTH,
        asked_with={"usd_per_kwh": 0.1},
        description="Cost of `facility_power_w` per hour.",
    ),
    Metric(
        name="electricity_usd_per_million_output_tokens",
        label="electricity per million output tokens",
        short="kWh cost/M tokens",
        unit="USD/million output tokens",
        shown="money",
        better="lower",
        verbs=BOTH,
        asked_with={"usd_per_kwh": 0.1},
        description="Cost of `facility_power_w` over the output tokens.",
    ),
    Metric(
        name="energy_j",
        label="energy",
        unit="J",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=KERNELS,
        description="Energy of the GPU board in one execution of the operator.",
    ),
)
