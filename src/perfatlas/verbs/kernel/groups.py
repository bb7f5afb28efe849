"""The groups of fields that each form of `kernel` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    AttentionShape,
    ClockChoice,
    ElementwiseShape,
    GemmShape,
    KernelChoice,
    MoeShape,
    PowerLimit,
    SystemChoice,
    TierChoice,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "kernel gemm": (SystemChoice, GemmShape, KernelChoice, TierChoice, ClockChoice, PowerLimit),
    "kernel attention": (
        SystemChoice,
        AttentionShape,
        KernelChoice,
        TierChoice,
        ClockChoice,
        PowerLimit,
    ),
    "kernel elementwise": (
        SystemChoice,
        ElementwiseShape,
        KernelChoice,
        TierChoice,
        ClockChoice,
        PowerLimit,
    ),
    "kernel moe": (SystemChoice, MoeShape, KernelChoice, TierChoice, ClockChoice, PowerLimit),
}
