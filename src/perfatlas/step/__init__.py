"""One prefill or decode step of a rank: fusions, streams, host time; knows nothing of traffic."""

from __future__ import annotations

from perfatlas.step.context import Placement, StepContext
from perfatlas.step.cost import StepCost, price_step
from perfatlas.step.fusion import apply_fusions
from perfatlas.step.phases import decode_step, prefill_step, rank_operators
from perfatlas.step.tokens import PrefillChunks, padded_batch, prefill_chunks

__all__ = [
    "Placement",
    "PrefillChunks",
    "StepContext",
    "StepCost",
    "apply_fusions",
    "decode_step",
    "padded_batch",
    "prefill_chunks",
    "prefill_step",
    "price_step",
    "rank_operators",
]
