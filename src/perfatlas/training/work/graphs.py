"""Kernels that an engine runs of the operators of a graph in a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.operators import with_fields
from perfatlas.step import conversions, fused_kinds, kind_of
from perfatlas.training.work.operators import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.engines import EngineProfile
    from perfatlas.operators import Gemm
    from perfatlas.training.work.operators import Row

NORM: Final = "norm"
LAYOUT: Final = "layout"
OF_PART: Final = {Part.INPUT_GRADIENT: "data", Part.WEIGHT_GRADIENT: "weight"}


def keeping_rows(rows: Sequence[Row], profile: EngineProfile) -> tuple[Row, ...]:
    """Return the operators that keep their inputs: all but those that are fused, without norms.

    Args:
        rows: The operators, from `model_operators`.
        profile: The engine, with its fusions.

    Source: pytorch torch/_functorch/partitioners.py: the backward pass computes elementwise
        operators again, from tensors that are kept anyway.
    """
    fused = fused_kinds(profile, trains=True)
    return tuple(
        row
        for row in rows
        if kind_of(row.operator.name) not in fused or NORM in row.operator.stream_kind
    )


def kernel_rows(rows: Sequence[Row], profile: EngineProfile) -> tuple[Row, ...]:
    """Return the kernels of the operators, with conversions around convolutions.

    Args:
        rows: The operators, from `keeping_rows`.
        profile: The engine, with its fusions and the layout of its images.

    Limits: A fused operator takes no time, and the kernel it is fused into does not get slower.
        Backward passes of norms are kernels of their own, since they read their inputs again.
    """
    return tuple(_kernels(rows, profile))


def gradient_time(product: Gemm, part: Part, profile: EngineProfile) -> float:
    """Return the time of a gradient over that of a product of its size.

    A kernel of 1 x 1 is a product, in which images and weights have elements of equal size.
    """
    whole = np.all(product.input_bytes_per_element == product.weight_bytes_per_element)
    if profile.graph_kernels is None or whole or kind_of(product.name) != "conv":
        return 1.0
    return profile.graph_kernels.gradient_times.get(OF_PART.get(part, ""), 1.0)


def _kernels(rows: Sequence[Row], profile: EngineProfile) -> Iterator[Row]:
    fused = fused_kinds(profile, trains=True)
    for row in rows:
        for conversion in conversions(row.operator, profile):
            if np.any(conversion.count):
                yield row._replace(operator=with_fields(conversion, stream=LAYOUT))
        if row.part != Part.FORWARD or kind_of(row.operator.name) not in fused:
            yield row
