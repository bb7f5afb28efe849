"""Quantizers: fp8 by tensor, token and block, and packed fp4 with block scales."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def largest(x: tl.tensor, out: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    """Raise the float at `out`, which starts at 0, to the largest magnitude of x."""
    first = tl.program_id(0).to(tl.int64) * TILE[0] * TILE[1]
    most = tl.zeros((TILE[0],), tl.float32)
    for step in tl.static_range(TILE[1]):
        offs = first + step * TILE[0] + tl.arange(0, TILE[0])
        most = tl.maximum(most, tl.abs(tl.load(x + offs, offs < count, 0.0).to(tl.float32)))
    tl.atomic_max(out, tl.max(most, 0), sem="relaxed")


@triton.jit
def quantize_tensor(
    x: tl.tensor, amax: tl.tensor, out: tl.tensor, count: tl.tensor, TILE: tl.constexpr
) -> None:
    """Write x in units of amax over the largest finite value of the format."""
    offs = tl.program_id(0).to(tl.int64) * TILE[0] + tl.arange(0, TILE[0])
    scale = TILE[1] / tl.maximum(tl.load(amax), 1e-12)
    value = tl.load(x + offs, offs < count, 0.0).to(tl.float32) * scale
    value = tl.clamp(value, -TILE[1], TILE[1])
    tl.store(out + offs, value.to(out.dtype.element_ty), offs < count)


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


@triton.jit
def _e2m1(value: tl.tensor) -> tl.tensor:
    """Return the codes of the nearest values of e2m1, ties to even, saturated at 6."""
    size = tl.abs(value)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size >= 1.75).to(tl.int32) + (size > 2.5).to(tl.int32)
    code += (size >= 3.5).to(tl.int32) + (size > 5.0).to(tl.int32)
    return tl.where(value < 0.0, code + 8, code)


@triton.jit
def _pack(code: tl.tensor, ROWS: tl.constexpr, PAIRS: tl.constexpr) -> tl.tensor:
    """Return two codes in each byte, that of the even column in the low half."""
    low, high = tl.split(code.reshape(ROWS, PAIRS, 2))
    return (low | (high << 4)).to(tl.uint8)


@triton.jit
def quantize_mxfp4(
    x: tl.tensor, out: tl.tensor, scales: tl.tensor, sizes: tl.tuple, TILE: tl.constexpr
) -> None:
    """Write e2m1 pairs, and for each 32 columns a power of two as e8m0.

    Args:
        sizes: Rows, width (a multiple of 32).
    """
    rows, width = sizes
    ROWS: tl.constexpr = TILE[0]
    GROUPS: tl.constexpr = TILE[1] // 32
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE[1] + tl.arange(0, TILE[1])
    inside = (row < rows)[:, None] & (column < width)[None, :]
    long_row = row.to(tl.int64)[:, None]
    value = tl.load(x + long_row * width + column[None, :], inside, 0.0).to(tl.float32)
    value = value.reshape(ROWS, GROUPS, 32)
    amax = tl.max(tl.abs(value), 2)
    # floor(log2(amax)) less the exponent 2 of 6, the largest value of e2m1
    byte = tl.maximum(((amax.to(tl.int32, bitcast=True) >> 23) & 255) - 2, 0)
    inverse = ((254 - byte) << 23).to(tl.float32, bitcast=True)
    code = _e2m1(value * inverse[:, :, None])
    pair = tl.program_id(1) * (TILE[1] // 2) + tl.arange(0, TILE[1] // 2)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    kept = (row < rows)[:, None] & (pair < width // 2)[None, :]
    tl.store(out + long_row * (width // 2) + pair[None, :], _pack(code, ROWS, TILE[1] // 2), kept)
    kept = (row < rows)[:, None] & (group < width // 32)[None, :]
    tl.store(scales + long_row * (width // 32) + group[None, :], byte.to(tl.uint8), kept)


@triton.jit
def _e4m3_code(value: tl.tensor) -> tl.tensor:
    """Return the codes of the nearest values of e4m3, ties to even, of values from 0 to 448.

    Adding half of the last kept bit, less one where it is even, rounds the bits of fp32. Below
    2**-6 values are multiples of 2**-9, to which adding 1.5 * 2**23 rounds.
    """
    bits = value.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - ((127 - 7) << 3)
    small = (value * 512.0 + 12582912.0).to(tl.int32, bitcast=True) & 15
    return tl.where(value < 0.015625, small, normal).to(tl.uint8)


@triton.jit
def _e4m3_value(code: tl.tensor) -> tl.tensor:
    """Return the values of codes of e4m3 that are positive."""
    return (code.to(tl.int16) << 7).to(tl.float16, bitcast=True).to(tl.float32) * 256.0


@triton.jit
def quantize_nvfp4(
    x: tl.tensor,
    out: tl.tensor,
    scales: tl.tensor,
    amax: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write e2m1 pairs, and for each 16 columns a scale in e4m3 over that of the tensor.

    The scale of the tensor is amax over 448 and 6, the largest values of e4m3 and e2m1.

    Args:
        sizes: Rows, width (a multiple of 16).
    """
    rows, width = sizes
    ROWS: tl.constexpr = TILE[0]
    GROUPS: tl.constexpr = TILE[1] // 16
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * TILE[1] + tl.arange(0, TILE[1])
    inside = (row < rows)[:, None] & (column < width)[None, :]
    long_row = row.to(tl.int64)[:, None]
    value = tl.load(x + long_row * width + column[None, :], inside, 0.0).to(tl.float32)
    value = value.reshape(ROWS, GROUPS, 16)
    tensor_scale = tl.maximum(tl.load(amax), 1e-12) / 2688.0
    ideal = tl.max(tl.abs(value), 2) / 6.0 / tensor_scale
    byte = _e4m3_code(tl.minimum(ideal, 448.0))
    scale = tl.maximum(_e4m3_value(byte) * tensor_scale, 1e-30)
    code = _e2m1(value / scale[:, :, None])
    pair = tl.program_id(1) * (TILE[1] // 2) + tl.arange(0, TILE[1] // 2)
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    kept = (row < rows)[:, None] & (pair < width // 2)[None, :]
    tl.store(out + long_row * (width // 2) + pair[None, :], _pack(code, ROWS, TILE[1] // 2), kept)
    kept = (row < rows)[:, None] & (group < width // 16)[None, :]
    tl.store(scales + long_row * (width // 16) + group[None, :], byte, kept)
