"""Metrics of one operator or collective: `kernel` and `collective`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by

KERNELS: Final = (
    *("kernel gemm", "kernel attention", "kernel moe", "kernel conv", "kernel norm"),
    *("kernel softmax", "kernel embedding", "kernel elementwise"),
)
OPERATORS: Final = (*KERNELS, "collective")
DESIGNS: Final = ("kernel design attention", "kernel design gemm")

OPERATOR: Final = reported_by(
    Metric(
        name="time_s",
        label="time",
        better="lower",
        has_interval=True,
        verbs=(*OPERATORS, *DESIGNS),
        description=(
            "Time of one execution of the operator; its interval holds for other machines of the"
            " kind (reproducibility)."
        ),
    ),
    Metric(
        name="tabulated_low_s",
        label="90% interval as tabulated, low",
        short="as tabulated, low",
        description=(
            "Lower end of the 90% interval on the machine that was measured (repeatability)."
        ),
    ),
    Metric(
        name="tabulated_high_s",
        label="90% interval as tabulated, high",
        short="as tabulated, high",
        description=(
            "Upper end of the 90% interval on the machine that was measured (repeatability)."
        ),
    ),
    Metric(
        name="bound",
        label="bound",
        holds="text",
        description="What limits the time: compute, memory, network or latency.",
    ),
    Metric(
        name="bound_time_s",
        label="roofline time",
        better="lower",
        verbs=(*OPERATORS, *DESIGNS),
        description="Minimum time at the peak rates of the hardware.",
    ),
    Metric(
        name="tier",
        label="tier",
        holds="text",
        description="Pricing tier: bound, physics or measured.",
    ),
    Metric(
        name="flop",
        label="FLOP",
        verbs=(*KERNELS, *DESIGNS),
        description="Floating-point operations; a multiply-add is two.",
    ),
    Metric(
        name="cold_bytes",
        label="weight and KV cache bytes",
        short="weight+KV bytes",
        verbs=KERNELS,
        description="Bytes read from device memory with cold caches: weights and KV cache.",
    ),
    Metric(
        name="activation_bytes",
        label="activation bytes",
        verbs=KERNELS,
        description="Bytes of activations read and written.",
    ),
    Metric(
        name="flop_per_s",
        label="FLOP/s",
        better="higher",
        verbs=(*KERNELS, *DESIGNS),
        description="FLOP over the time.",
    ),
    Metric(
        name="bytes_per_s",
        label="bytes/s",
        better="higher",
        verbs=KERNELS,
        description=(
            "Weight, KV cache and activation bytes over the time; activations may stay in the L2"
            " cache, so it may exceed the memory bandwidth."
        ),
    ),
    Metric(
        name="peak_share",
        label="share of peak FLOP/s",
        short="share of peak",
        shown="share",
        better="higher",
        verbs=(*KERNELS, *DESIGNS),
        description=(
            "FLOP/s over the dense peak of the format in the data sheet, at whatever clock the"
            " operator runs."
        ),
    ),
    Metric(
        name="roofline_share",
        label="share of roofline",
        shown="share",
        better="higher",
        verbs=(*KERNELS, *DESIGNS),
        description="Roofline time divided by the time; 1 is the roofline.",
    ),
    Metric(
        name="arithmetic_intensity",
        label="arithmetic intensity [FLOP/B]",
        short="FLOP per byte",
        verbs=KERNELS,
        description="FLOP over weight, KV cache and activation bytes.",
    ),
    Metric(
        name="quantization",
        label="quantization",
        holds="text",
        verbs=("kernel gemm",),
        asked_with={"format": "fp8_dynamic"},
        description="Whether the time includes the quantization of the activation.",
    ),
    Metric(
        name="bus_bandwidth_bytes_per_s",
        label="bus bandwidth",
        better="higher",
        verbs=("collective",),
        description="Bus bandwidth as nccl-tests defines it.",
    ),
    Metric(
        name="algorithm",
        label="algorithm",
        holds="text",
        verbs=("collective",),
        description="Algorithm of the collective. NVLink switches reduce in nvls (the default of"
        " NCCL), with trees of nodes in nvls_tree, with the switches between nodes in nvls_sharp.",
    ),
    verbs=OPERATORS,
)
