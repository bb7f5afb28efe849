"""The groups of fields that each form of `kernel` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.fields import (
    AttentionKind,
    AttentionPhase,
    AttentionShape,
    AttentionSizes,
    ClockChoice,
    ConvShape,
    DesignedAttention,
    ElementwiseShape,
    EmbeddingShape,
    GemmShape,
    KernelChoice,
    MeasuredProduct,
    MoeShape,
    NormShape,
    PowerLimit,
    RowShape,
    SystemChoice,
    TierChoice,
    TileChoice,
)

PRICED: Final = (KernelChoice, TierChoice, ClockChoice, PowerLimit)
QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "kernel gemm": (SystemChoice, GemmShape, MeasuredProduct, *PRICED),
    "kernel attention": (
        SystemChoice,
        AttentionPhase,
        AttentionKind,
        AttentionSizes,
        AttentionShape,
        *PRICED,
    ),
    "kernel conv": (SystemChoice, ConvShape, *PRICED),
    "kernel norm": (SystemChoice, NormShape, RowShape, *PRICED),
    "kernel softmax": (SystemChoice, RowShape, *PRICED),
    "kernel embedding": (SystemChoice, EmbeddingShape, RowShape, *PRICED),
    "kernel elementwise": (SystemChoice, ElementwiseShape, RowShape, *PRICED),
    "kernel moe": (SystemChoice, MoeShape, *PRICED),
    "kernel design attention": (
        SystemChoice,
        AttentionKind,
        AttentionSizes,
        DesignedAttention,
        TileChoice,
    ),
    "kernel design gemm": (SystemChoice, GemmShape, TileChoice),
}
