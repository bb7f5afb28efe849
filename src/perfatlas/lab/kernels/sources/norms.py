"""RMSNorm of a sum with a residual."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rms_norm(
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Add x to the residual in place, and write its weighted RMSNorm.

    A program has whole rows, so that each element is read once.
    """
    rows, width, epsilon = sizes
    row = tl.program_id(0) * TILE[0] + tl.arange(0, TILE[0])
    column = tl.arange(0, TILE[1])
    inside = (row < rows)[:, None] & (column < width)[None, :]
    offs = row.to(tl.int64)[:, None] * width + column[None, :]
    total = tl.load(x + offs, inside, 0.0).to(tl.float32)
    total += tl.load(residual + offs, inside, 0.0).to(tl.float32)
    stored = total.to(residual.dtype.element_ty)
    tl.store(residual + offs, stored, inside)
    scale = tl.rsqrt(tl.sum(total * total, 1) / width + epsilon)
    weights = tl.load(weight + column, column < width, 0.0).to(tl.float32)
    normed = total * scale[:, None] * weights[None, :]
    tl.store(out + offs, normed.to(out.dtype.element_ty), inside)
