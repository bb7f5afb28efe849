"""One prefill or decode step of a rank: fusions, streams, host time; knows nothing of traffic."""

from __future__ import annotations

from perfatlas.step.context import Placement, StepContext
from perfatlas.step.cost import Step, StepCost, price_steps
from perfatlas.step.phases import (
    ALONE,
    decode_step,
    decode_work,
    prefill_step,
    prefill_work,
    rank_operators,
)
from perfatlas.step.tokens import PrefillChunks, padded_batch, prefill_chunks

__all__ = [
    "ALONE",
    "Placement",
    "PrefillChunks",
    "Step",
    "StepContext",
    "StepCost",
    "decode_step",
    "decode_work",
    "padded_batch",
    "prefill_chunks",
    "prefill_step",
    "prefill_work",
    "price_steps",
    "rank_operators",
]
