"""Metrics that `train` alone answers."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

TRAIN: Final = ("train",)
PARTS: Final = {
    "compute": "kernels",
    "exposed_tp": "tensor parallelism",
    "exposed_cp": "context parallelism",
    "exposed_ep": "expert parallelism",
    "exposed_dp": "data parallelism",
    "exposed_pp": "pipeline transfers",
    "bubble": "pipeline bubble",
    "recompute": "recomputation",
    "optimizer": "optimizer",
    "host": "host",
    "jitter": "waiting for the slowest rank",
}
METRICS: Final = declare_metrics(
    Metric(
        name="step_time_s",
        label="step time",
        unit="s",
        shown="scaled",
        better="lower",
        has_interval=True,
        verbs=TRAIN,
        description="Time of a training step, optimizer included.",
    ),
    Metric(
        name="tokens_per_s_per_gpu",
        label="tokens/s per GPU",
        unit="tokens/s/GPU",
        better="higher",
        has_interval=True,
        verbs=TRAIN,
        description="Tokens of a step over its time and all GPUs.",
    ),
    Metric(
        name="mfu",
        label="model FLOP utilization (MFU)",
        short="MFU",
        unit="1",
        shown="share",
        better="higher",
        has_interval=True,
        verbs=TRAIN,
        description="Model FLOP of a step over its time and the dense peak of all GPUs; the answer"
        " names the convention.",
    ),
    Metric(
        name="hfu",
        label="hardware FLOP utilization (HFU)",
        short="HFU",
        unit="1",
        shown="share",
        has_interval=True,
        verbs=TRAIN,
        description="As the MFU, with the FLOP of recomputation.",
    ),
    Metric(
        name="micro_batches",
        label="micro-batches",
        holds="count",
        verbs=TRAIN,
        description="Micro-batches of a pipeline per step.",
    ),
    Metric(
        name="waterfall",
        label="waterfall",
        holds="object",
        parts=PARTS,
        verbs=TRAIN,
        description="Parts of the step in seconds, which sum to it, on the rank with most work.",
    ),
    Metric(
        name="memory.gradients_bytes",
        label="gradients",
        unit="B",
        shown="scaled",
        better="lower",
        verbs=TRAIN,
        description="Accumulated gradients on the GPU.",
    ),
    Metric(
        name="memory.optimizer_bytes",
        label="optimizer states",
        short="optimizer",
        unit="B",
        shown="scaled",
        better="lower",
        verbs=TRAIN,
        description="Master weights and moments of the optimizer on the GPU.",
    ),
)
