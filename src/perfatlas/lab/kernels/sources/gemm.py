"""Persistent matrix products, C = A B^T, with tiles copied by tensor descriptors."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _place(tile: tl.tensor, M: tl.tensor, N: tl.tensor, TILE: tl.constexpr) -> tl.tuple:
    """Return first row and column of a tile; neighbours share rows of A and B in L2."""
    down, across = tl.cdiv(M, TILE[0]), tl.cdiv(N, TILE[1])
    band = tile // (TILE[3] * across)
    height = tl.minimum(down - band * TILE[3], TILE[3])
    inside = tile - band * TILE[3] * across
    return (band * TILE[3] + inside % height) * TILE[0], inside // height * TILE[1]


@triton.jit
def gemm(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, scale: tl.tensor, sizes: tl.tuple, TILE: tl.constexpr
) -> None:
    """Write scale A B^T; with several splits of K, the product of each, to be added.

    Args:
        a: (M, K).
        b: (N, K).
        c: (splits, M, N).
    """
    M, N, K = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    BK: tl.constexpr = TILE[2]
    SPLITS: tl.constexpr = TILE[4]
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    area = tl.cast(M, tl.int64) * N
    c_tiles = tl.make_tensor_descriptor(c, [SPLITS, M, N], [area, N, 1], [1, BM, BN])
    factor = tl.load(scale)
    depth = tl.cdiv(tl.cdiv(K, BK), SPLITS) * BK
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN) * SPLITS
    for tile in tl.range(
        tl.program_id(0), tiles, tl.num_programs(0), flatten=TILE[5], warp_specialize=TILE[5]
    ):
        m, n = _place(tile // SPLITS, M, N, TILE)
        split = tile % SPLITS
        total = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(split * depth, tl.minimum(K, (split + 1) * depth), BK):
            total = tl.dot(a_tiles.load([m, k]), b_tiles.load([n, k]).T, total)
        result = (total * factor).to(c.dtype.element_ty)
        c_tiles.store([split, m, n], result.reshape(1, BM, BN))


@triton.jit
def sum_splits(parts: tl.tensor, out: tl.tensor, count: tl.tensor, TILE: tl.constexpr) -> None:
    """Add the products of the splits of K, in their order."""
    offs = tl.program_id(0).to(tl.int64) * TILE[0] + tl.arange(0, TILE[0])
    total = tl.zeros((TILE[0],), tl.float32)
    for split in tl.static_range(TILE[1]):
        total += tl.load(parts + split * count.to(tl.int64) + offs, offs < count, 0.0)
    tl.store(out + offs, total.to(out.dtype.element_ty), offs < count)


@triton.jit
def gemm_block_scaled(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, scales: tl.tuple, sizes: tl.tuple, TILE: tl.constexpr
) -> None:
    """Write A B^T of fp8 with scales of 1 x 128 of A and 128 x 128 of B.

    Partial products of 128 are scaled and added in fp32 registers.

    Args:
        a: (M, K).
        b: (N, K).
        c: (M, N).
        scales: those of A (M, K / 128) and of B (N / 128, K / 128).
        sizes: M, N, K (a multiple of 128).
        TILE: Rows, columns (at most 128), depth 128, tiles of a band.
    """
    M, N, K = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    BK: tl.constexpr = TILE[2]
    a_scales, b_scales = scales
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    c_tiles = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    blocks = K // BK
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        m, n = _place(tile, M, N, TILE)
        row = m + tl.arange(0, BM)
        total = tl.zeros((BM, BN), tl.float32)
        for block in tl.range(0, blocks):
            part = tl.dot(a_tiles.load([m, block * BK]), b_tiles.load([n, block * BK]).T)
            factor = tl.load(a_scales + row * blocks + block, row < M, 0.0)
            factor *= tl.load(b_scales + n // 128 * blocks + block)
            total += part * factor[:, None]
        c_tiles.store([m, n], total.to(c.dtype.element_ty))


@triton.jit
def _e2m1_values(code: tl.tensor) -> tl.tensor:
    """Return the values of codes of e2m1, which are fp16 with another bias."""
    code = code.to(tl.int16)
    bits = ((code & 7) << 9) | ((code & 8) << 12)
    return bits.to(tl.float16, bitcast=True).to(tl.float32) * 16384.0


@triton.jit
def gemm_nvfp4_weights(
    a: tl.tensor, b: tl.tensor, c: tl.tensor, scales: tl.tuple, sizes: tl.tuple, TILE: tl.constexpr
) -> None:
    """Write A W^T, with weights in nvfp4 that become the format of A in registers.

    Args:
        a: (M, K).
        b: Pairs of codes (N, K / 2).
        c: (M, N).
        scales: Codes of e4m3 (N, K / 16), and one float, the scale of the tensor.
        sizes: M, N, K (a multiple of 32).
    """
    M, N, K = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    BK: tl.constexpr = TILE[2]
    block_scales, tensor_scale = scales
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [N, K // 2], [K // 2, 1], [BN, BK // 2])
    c_tiles = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    factor = tl.load(tensor_scale) * 256.0
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):
        m, n = _place(tile, M, N, TILE)
        column = n + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK):
            pairs = b_tiles.load([n, k // 2])
            values = _e2m1_values(tl.join(pairs & 15, pairs >> 4)).reshape(BN, BK // 16, 16)
            group = k // 16 + tl.arange(0, BK // 16)
            inside = (column < N)[:, None] & (group < K // 16)[None, :]
            codes = tl.load(block_scales + column[:, None] * (K // 16) + group[None, :], inside, 0)
            scale = (codes.to(tl.int16) << 7).to(tl.float16, bitcast=True).to(tl.float32)
            weights = (values * scale[:, :, None]).reshape(BN, BK).to(a.dtype.element_ty)
            total = tl.dot(a_tiles.load([m, k]), weights.T, total)
        c_tiles.store([m, n], (total * factor).to(c.dtype.element_ty))


@triton.jit
def grouped_gemm(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    offsets: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the product of each group of rows with the matrix of that group.

    Args:
        a: Rows sorted by group (rows, K).
        b: (groups, N, K).
        c: (rows, N).
        offsets: First row of each group, and the number of rows (groups + 1).
    """
    rows, groups, N, K = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    BK: tl.constexpr = TILE[2]
    a_tiles = tl.make_tensor_descriptor(a, [rows, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [groups, N, K], [N * K, K, 1], [1, BN, BK])
    tile = tl.program_id(0)
    before = 0
    for group in tl.range(0, groups):
        start, end = tl.load(offsets + group), tl.load(offsets + group + 1)
        tiles = tl.cdiv(end - start, BM) * tl.cdiv(N, BN)
        while tile < before + tiles:
            m, n = _place(tile - before, end - start, N, TILE)
            total = tl.zeros((BM, BN), tl.float32)
            for k in tl.range(0, K, BK):
                weights = b_tiles.load([group, n, k]).reshape(BN, BK)
                total = tl.dot(a_tiles.load([start + m, k]), weights.T, total)
            row = start + m + tl.arange(0, BM)
            column = n + tl.arange(0, BN)
            offs = row.to(tl.int64)[:, None] * N + column[None, :]
            inside = (row < end)[:, None] & (column < N)[None, :]
            tl.store(c + offs, total.to(c.dtype.element_ty), inside)
            tile += tl.num_programs(0)
        before += tiles
