"""Phases of a model to which operators belong."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The phase of an operator; the value is what answers print."""

    PREFILL = "prefill"  # new tokens of a prompt
    DECODE = "decode"  # one new token per sequence
    FORWARD = "forward"  # training: as prefill, but activations are kept
    DATA_GRADIENT = "data gradient"
    WEIGHT_GRADIENT = "weight gradient"
