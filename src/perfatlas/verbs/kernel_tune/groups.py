"""The groups of fields that each form of `kernel tune` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary import fields

QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "kernel tune": (fields.ModelChoice, fields.SystemChoice, fields.TunedStep, fields.TuneBudget),
    "kernel tune gemm": (fields.SystemChoice, fields.GemmShape, fields.TuneBudget),
    "kernel tune grouped_gemm": (fields.SystemChoice, fields.MoeShape, fields.TuneBudget),
    "kernel tune attention": (
        fields.SystemChoice,
        fields.AttentionKind,
        fields.AttentionSizes,
        fields.DesignedAttention,
        fields.TuneBudget,
    ),
    "kernel tune norm": (fields.SystemChoice, fields.RowShape, fields.TuneBudget),
    "kernel tune all_reduce": (fields.SystemChoice, fields.RowShape, fields.ReducedRows),
}
