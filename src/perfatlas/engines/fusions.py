"""Operators that an engine fuses, or runs as several kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from perfatlas.engines.field_readers import COUNT, NAME, NAMES, OPERATORS, REF, needed, perhaps
from perfatlas.files import Record, Text

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """Streaming operators that are fused into another kernel."""

    operators: tuple[str, ...]
    formats: tuple[str, ...]  # Formats of the GEMM it feeds; empty for all
    model_types: tuple[str, ...]  # `model_type` of the models with this fusion; empty for all
    # Kernel it is fused into: norm, activation or attention; of graphs, elementwise kernels or
    # products
    into: str
    source: str  # Documentation reference


@dataclass(frozen=True, kw_only=True)
class SeparateKernels:
    """A streaming operator that a release runs as several kernels."""

    operator: str
    kernels: int  # Kernels per execution
    model_types: tuple[str, ...]  # `model_type` of the models for which it does; empty for all
    source: str  # Documentation reference


@dataclass(frozen=True, kw_only=True)
class ContiguousExperts:
    """Experts that run on contiguous rows, padded to whole row tiles."""

    formats: tuple[str, ...]  # Formats of the experts
    rows: int  # Rows of a tile
    architectures: tuple[str, ...]  # GPUs on which all shapes run so
    # GPUs on which shapes of at least `rows` tokens and wider experts than `above_width` do
    large_only: tuple[str, ...]
    source: str  # Documentation reference
    above_width: int = 0  # Width of an expert on a GPU
    below_moe_tp: float = math.inf  # Tensor-parallel ranks of an expert from which none does


@dataclass(frozen=True, kw_only=True)
class AttentionSpeed:
    """Speed of an engine's attention kernels over that of the measured ones."""

    speed: Mapping[str, float]  # By architecture; 1 where it has none
    source: str  # Documentation reference


@dataclass(frozen=True, kw_only=True)
class GraphKernels:
    """Kernels of graphs that are not those of the measured tables."""

    # How images are stored, "nchw" or "nhwc". Convolutions in 16 bits run on NHWC: of images in
    # NCHW, they convert image, weights and output around every kernel larger than 1 x 1.
    layout: str
    # Most bytes that an SM moves per clock in operators that memory bandwidth limits elsewhere, by
    # kind, or by kind and what it follows. Depthwise convolutions move an input per tap.
    bytes_per_cycle: Mapping[str, float]
    # Head widths of its attention kernels, ascending: others are padded to the next
    head_dims: tuple[int, ...]
    source: str  # Documentation reference
    # Elements of the longest row that kernels for short rows take, by kind
    short_row: Mapping[str, float] = field(default_factory=dict)
    # `bytes_per_cycle` of these
    short_row_bytes_per_cycle: Mapping[str, float] = field(default_factory=dict)
    # Clocks of an SM that a row takes besides those of its bytes, by kind
    row_cycles: Mapping[str, float] = field(default_factory=dict)
    # Bytes per clock of the thread block that reduces a row, by kind: time that few rows take
    # besides that of their bytes
    row_bytes_per_cycle: Mapping[str, float] = field(default_factory=dict)
    # Bytes per clock of the thread block that alone reduces a row, two of which run on an SM at
    # once, by kind: few rows leave SMs without work. Infinite where blocks share a row.
    block_bytes_per_cycle: Mapping[str, float] = field(default_factory=dict)
    # Times of gradients of convolutions larger than 1 x 1 over those of products of their size:
    # "data" and "weight"
    gradient_times: Mapping[str, float] = field(default_factory=dict)
    # Engine with these kernels on images in NHWC, which networks run that permute images
    # themselves; "" where this one does
    nhwc: str = ""
    # Most rows that an SM looks up per clock, by kind
    gathers_per_cycle: Mapping[str, float] = field(default_factory=dict)
    # Speed of kernels in a pass over their speed alone, by architecture, 1 elsewhere
    pass_speed: Mapping[str, float] = field(default_factory=dict)


FUSION: Final = Record(
    fields={
        "operators": needed(NAMES, *OPERATORS),
        "formats": needed(NAMES, *OPERATORS),
        "model_types": perhaps(NAMES, *OPERATORS),
        "into": needed(
            Text(choices=("norm", "activation", "attention", "elementwise", "product")), *OPERATORS
        ),
        "ref": REF,
    },
    build=lambda *, model_types=(), **fields: Fusion(model_types=model_types, **fields),
)
SEPARATE: Final = Record(
    fields={
        "operator": needed(NAME, *OPERATORS),
        "kernels": needed(COUNT, *OPERATORS),
        "model_types": perhaps(NAMES, *OPERATORS),
        "ref": REF,
    },
    build=lambda *, model_types=(), **fields: SeparateKernels(model_types=model_types, **fields),
)
CONTIGUOUS: Final = Record(
    fields={
        "formats": needed(NAMES, *OPERATORS),
        "rows": needed(COUNT, *OPERATORS),
        "architectures": needed(NAMES, *OPERATORS),
        "large_only": needed(NAMES, *OPERATORS),
        "above_width": perhaps(COUNT, *OPERATORS),
        "below_moe_tp": perhaps(COUNT, *OPERATORS),
        "ref": REF,
    },
    build=ContiguousExperts,
)
