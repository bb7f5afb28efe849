"""The groups of fields that each form of `kernel` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    AttentionPhase,
    AttentionShape,
    AttentionSizes,
    ClockChoice,
    DesignedAttention,
    ElementwiseShape,
    GemmShape,
    KernelChoice,
    MeasuredProduct,
    MoeShape,
    PowerLimit,
    SystemChoice,
    TierChoice,
    TileChoice,
)

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "kernel gemm": (
        SystemChoice,
        GemmShape,
        MeasuredProduct,
        KernelChoice,
        TierChoice,
        ClockChoice,
        PowerLimit,
    ),
    "kernel attention": (
        SystemChoice,
        AttentionPhase,
        AttentionSizes,
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
    "kernel design attention": (SystemChoice, AttentionSizes, DesignedAttention, TileChoice),
    "kernel design gemm": (SystemChoice, GemmShape, TileChoice),
}
