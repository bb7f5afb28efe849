"""Metrics of power and energy: `estimate`, `simulate` and `kernel`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.goodput import GOODPUT
from perfatlas.vocabulary.metrics.metric import Metric, reported_by
from perfatlas.vocabulary.metrics.operators import DESIGNS, KERNELS
from perfatlas.vocabulary.metrics.serving import SERVING_VERBS, SIMULATE

TRAIN: Final = ("train",)
ENERGY: Final = reported_by(
    Metric(
        name="power_w",
        label="power per GPU",
        short="power",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, *KERNELS, *DESIGNS, *TRAIN),
        description=(
            "Mean power of a GPU board, without CPU, NICs, fans and power conversion; of a kernel,"
            " while it runs again and again; of a training step, of its mean GPU."
        ),
    ),
    Metric(
        name="energy_per_output_token_j",
        label="energy per output token",
        short="J/token",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, "search"),
        description=(
            "Energy of all GPUs, idle ones included, over the output tokens; prefill is included."
        ),
    ),
    Metric(
        name="prefill_energy_per_output_token_j",
        label="energy of prefill per output token",
        short="prefill J/token",
        better="lower",
        verbs=SERVING_VERBS,
        description=(
            "Part of `energy_per_output_token_j`: dynamic energy of prompts, beyond what the"
            " decodes in their steps alone spend."
        ),
    ),
    Metric(
        name="decode_energy_per_output_token_j",
        label="energy of decode per output token",
        short="decode J/token",
        better="lower",
        verbs=SERVING_VERBS,
        description="Part of `energy_per_output_token_j`: dynamic energy of decode steps.",
    ),
    Metric(
        name="awake_energy_per_output_token_j",
        label="energy of boards beside kernels per output token",
        short="awake J/token",
        better="lower",
        verbs=SERVING_VERBS,
        description=(
            "Part of `energy_per_output_token_j`: what boards draw beside the energy of their"
            " kernels, while these run, between steps and in idle replicas."
        ),
    ),
    Metric(
        name="bubble_energy_per_output_token_j",
        label="energy of bubbles per output token",
        short="bubble J/token",
        better="lower",
        verbs=SERVING_VERBS,
        description=(
            "Part of `energy_per_output_token_j`: what GPUs draw within steps while they run no"
            " kernel, in pipeline bubbles and while they wait for the host."
        ),
    ),
    Metric(
        name="energy_per_request_j",
        label="energy per request",
        short="J/request",
        better="lower",
        has_interval=True,
        verbs=SERVING_VERBS,
        description="Energy of all GPUs, idle ones included, over the requests.",
    ),
    Metric(
        name="node_power_w",
        label="power per node",
        short="node power",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, *TRAIN),
        description=(
            "AC power of a node whose GPUs all draw `power_w`: with processors, switches, NICs,"
            " memory, fans and power conversion."
        ),
    ),
    Metric(
        name="facility_power_w",
        label="power of the facility",
        short="facility power",
        better="lower",
        has_interval=True,
        verbs=(*SERVING_VERBS, *TRAIN),
        asked_with={"pue": 1.25},
        description="Power of the nodes of all GPUs of the deployment or job, times the PUE.",
    ),
    Metric(
        name="energy_j",
        label="energy",
        better="lower",
        has_interval=True,
        verbs=(*KERNELS, *DESIGNS, *SIMULATE),
        description=(
            "Energy of the GPU board in one execution of the operator; of a simulation, of all GPU"
            " boards over the run."
        ),
    ),
    Metric(
        name="job_energy_j",
        label="energy of the job",
        short="job energy",
        better="lower",
        verbs=GOODPUT,
        asked_with={"power_w": 600.0, "gpus": 1024},
        description="Energy of the GPU boards of the job, without its spares.",
    ),
    Metric(
        name="lost_energy_j",
        label="energy of lost time",
        short="lost energy",
        better="lower",
        verbs=GOODPUT,
        asked_with={"power_w": 600.0, "gpus": 1024},
        description=(
            "Part of `job_energy_j` that is not spent on work that is kept: recomputed work,"
            " checkpoint stalls, detection, restarts and waiting."
        ),
    ),
    Metric(
        name="lost_work_energy_j",
        label="energy of lost work",
        short="lost work energy",
        better="lower",
        verbs=(*GOODPUT, "fleet schedule"),
        asked_with={"power_w": 600.0, "gpus": 1024},
        description=(
            "Part of the energy of the job or cluster that is spent on work that is lost and done"
            " again."
        ),
    ),
    Metric(
        name="prefill_energy_j",
        label="energy of prefill",
        short="prefill energy",
        better="lower",
        description=(
            "Part of `energy_j` spent in steps with prompts, beyond what their decodes alone spend,"
            " without `bubble_energy_j`."
        ),
    ),
    Metric(
        name="decode_energy_j",
        label="energy of decode",
        short="decode energy",
        better="lower",
        description="Part of `energy_j` spent in decode steps, without `bubble_energy_j`.",
    ),
    Metric(
        name="bubble_energy_j",
        label="energy of bubbles",
        short="bubble energy",
        better="lower",
        description=(
            "Part of `energy_j` that GPUs draw within steps while they run no kernel: they wait for"
            " the host."
        ),
    ),
    Metric(
        name="idle_energy_j",
        label="energy of idle GPUs",
        short="idle energy",
        better="lower",
        description=(
            "Part of `energy_j` that GPUs draw between steps and in idle replicas. GPUs released by"
            " an autoscaler draw none."
        ),
    ),
    Metric(
        name="deployment_power_w",
        label="power of all GPUs",
        short="GPU power",
        better="lower",
        description="Mean power of all GPU boards together: `energy_j` over the makespan.",
    ),
    Metric(
        name="p95_deployment_power_w",
        label="power of all GPUs, p95 over time",
        short="GPU power, p95",
        better="lower",
        description="Power of all GPU boards that is exceeded in 5% of the windows of the run.",
    ),
    Metric(
        name="peak_deployment_power_w",
        label="peak power of all GPUs",
        short="peak GPU power",
        better="lower",
        description=(
            "Highest mean power of all GPU boards together in a window of the run; windows are as"
            " many as samples, at most 2,000."
        ),
    ),
    Metric(
        name="least_energy_per_output_token_j",
        label="least energy per output token",
        short="least J/token",
        better="lower",
        verbs=("estimate --frontier",),
        description="Least energy per output token of the points of the frontier.",
    ),
    Metric(
        name="least_energy_clock_ratio",
        label="clock of the least energy",
        short="clock, least J",
        unit="1",
        verbs=("estimate --frontier",),
        description="Clock over the sustained clock at which energy per output token is least.",
    ),
    Metric(
        name="least_energy_power_cap_w",
        label="power limit of the least energy",
        short="limit, least J",
        verbs=("estimate --frontier",),
        description="Power limit of a GPU at which energy per output token is least.",
    ),
    verbs=SIMULATE,
)
