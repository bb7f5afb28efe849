"""Which step of a model an operator belongs to."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The step an operator belongs to; its value is what answers print."""

    PREFILL = "prefill"  # new tokens of a prompt
    DECODE = "decode"  # one new token of every sequence
    FORWARD = "forward"  # of training: as a prefill, with activations kept
    DATA_GRADIENT = "data gradient"
    WEIGHT_GRADIENT = "weight gradient"
