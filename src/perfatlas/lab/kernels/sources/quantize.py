"""A quantizer to fp8, with a scale of each token or of groups of columns."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def quantize_groups(
    x: tl.tensor, out: tl.tensor, scales: tl.tensor, sizes: tl.tuple, TILE: tl.constexpr
) -> None:
    """Write groups of columns with a scale each; a group of the whole width is one of a token."""
    rows, width, group = sizes
    row = tl.program_id(0) * TILE[0] + tl.arange(0, TILE[0])
    inner = tl.arange(0, TILE[1])
    column = tl.program_id(1) * group + inner
    inside = (row < rows)[:, None] & ((inner < group) & (column < width))[None, :]
    offs = row.to(tl.int64)[:, None] * width + column[None, :]
    value = tl.load(x + offs, inside, 0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), 1), 1e-12) / TILE[2]
    value = tl.clamp(value / scale[:, None], -TILE[2], TILE[2])
    tl.store(out + offs, value.to(out.dtype.element_ty), inside)
    groups = tl.num_programs(1)
    tl.store(scales + row.to(tl.int64) * groups + tl.program_id(1), scale, row < rows)
