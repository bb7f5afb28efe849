"""Metrics of `goodput` with a predicted training step."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

GOODPUT: Final = ("goodput",)
JOINED: Final = declare_metrics(
    Metric(
        name="training_mfu",
        label="MFU of a step",
        unit="1",
        shown="share",
        better="higher",
        has_interval=True,
        verbs=GOODPUT,
        description="Model FLOP utilization of the predicted step, without interruptions.",
    ),
    Metric(
        name="effective_mfu",
        label="MFU x goodput",
        unit="1",
        shown="share",
        better="higher",
        has_interval=True,
        verbs=GOODPUT,
        description="Model FLOP utilization of the job over its whole time. Ends of the interval"
        " combine those of both.",
    ),
    Metric(
        name="training_tokens_per_s",
        label="tokens/s of the job",
        unit="tokens/s",
        better="higher",
        has_interval=True,
        verbs=GOODPUT,
        description="Tokens that the job trains per second of its whole time, over all GPUs.",
    ),
    Metric(
        name="time_to_tokens_s",
        label="time to the token budget",
        unit="s",
        shown="duration",
        better="lower",
        has_interval=True,
        verbs=GOODPUT,
        description="Time in which the job trains its token budget.",
    ),
    Metric(
        name="token_budget_gpu_hours",
        label="GPU-hours to the token budget",
        unit="GPU-hours",
        better="lower",
        verbs=GOODPUT,
        description="GPU-hours of the job until its token budget is trained, without spares.",
    ),
    Metric(
        name="token_budget_usd",
        label="cost of the token budget",
        unit="USD",
        shown="money",
        better="lower",
        verbs=GOODPUT,
        description="Price of the GPU-hours of the job and its spares until its token budget is"
        " trained.",
    ),
)
