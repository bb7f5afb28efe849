"""The groups of fields that each form of `kernel` is asked."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary import fields

PRICED: Final = (fields.KernelChoice, fields.TierChoice, fields.ClockChoice, fields.PowerLimit)
CALLED: Final = (fields.TierChoice, fields.ClockChoice, fields.PowerLimit)
LIBRARIES: Final[dict[str, tuple[type, ...]]] = {
    "sort": (fields.SortShape,),
    "scan": (fields.ValueShape,),
    "reduce": (fields.ValueShape,),
    "histogram": (fields.ValueShape, fields.HistogramShape),
    "filter": (fields.ValueShape, fields.FilterShape),
    "join": (fields.JoinShape,),
    "group_by": (fields.GroupByShape,),
    "spmv": (fields.SpmvShape,),
    "stencil": (fields.GridShape, fields.StencilShape),
    "fft": (fields.GridShape, fields.FftShape),
    "solve": (fields.SolveShape,),
}
QUESTIONS: Final[dict[str, tuple[type, ...]]] = {
    "kernel gemm": (fields.SystemChoice, fields.GemmShape, fields.MeasuredProduct, *PRICED),
    "kernel attention": (
        fields.SystemChoice,
        fields.AttentionPhase,
        fields.AttentionKind,
        fields.AttentionSizes,
        fields.AttentionShape,
        *PRICED,
    ),
    "kernel op conv": (fields.SystemChoice, fields.ConvShape, *PRICED),
    "kernel op norm": (fields.SystemChoice, fields.NormShape, fields.RowShape, *PRICED),
    "kernel op softmax": (fields.SystemChoice, fields.RowShape, *PRICED),
    "kernel op embedding": (fields.SystemChoice, fields.EmbeddingShape, fields.RowShape, *PRICED),
    "kernel op elementwise": (
        fields.SystemChoice,
        fields.ElementwiseShape,
        fields.RowShape,
        *PRICED,
    ),
    **{
        f"kernel op {name}": (fields.SystemChoice, *shapes, *CALLED)
        for name, shapes in LIBRARIES.items()
    },
    "kernel moe": (fields.SystemChoice, fields.MoeShape, *PRICED),
    "kernel design attention": (
        fields.SystemChoice,
        fields.AttentionKind,
        fields.AttentionSizes,
        fields.DesignedAttention,
        fields.TileChoice,
    ),
    "kernel design gemm": (fields.SystemChoice, fields.GemmShape, fields.TileChoice),
}
