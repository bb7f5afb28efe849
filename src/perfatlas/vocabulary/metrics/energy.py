"""Metrics of power and energy: `estimate` and `kernel`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric
from perfatlas.vocabulary.metrics.operators import KERNELS
from perfatlas.vocabulary.metrics.serving import ESTIMATE

ENERGY: Final = (
    Metric(
        name="power_w",
        label="power per GPU",
        short="power",
        unit="W",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=(*ESTIMATE, *KERNELS),
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
        verbs=(*ESTIMATE, "search"),
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
        verbs=ESTIMATE,
        description="Energy of all GPUs, idle ones included, over the requests.",
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
