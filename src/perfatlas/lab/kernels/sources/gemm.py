"""Matrix products, C = A B^T: persistent, and of the experts of a mixture."""

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
def grouped_gemm_fp8(
    a: tl.tensor,
    b: tl.tensor,
    c: tl.tensor,
    routing: tl.tuple,
    scales: tl.tuple,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the products of tokens with the matrices of their experts, a row for each pair.

    Block scales are applied to partial products in fp32 registers.

    Args:
        a: (tokens, K), in fp8.
        b: (experts, N, K), in fp8.
        c: (pairs, N); pair p has token p // top_k.
        routing: Pairs by expert, padded to BM rows with numbers beyond the last pair, the expert
            of each BM of them, and their number.
        scales: One scale of A and those of experts (experts); or scales of blocks, (tokens, K /
            128) of A and (experts, N / 128, K / 128) of B.
        sizes: Pairs, experts, N, K (a multiple of a block), top_k.
        TILE: Rows, columns, depth (at most a block), tiles of a band, depth of a block (0: none).
    """
    count, experts, N, K, top_k = sizes
    pairs, of_block, padded = routing
    a_scales, b_scales = scales
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    BK: tl.constexpr = TILE[2]
    BLOCK: tl.constexpr = TILE[4]
    rows = tl.load(padded)
    if tl.program_id(0) >= tl.cdiv(rows, BM) * tl.cdiv(N, BN):
        return
    m, n = _place(tl.program_id(0), rows, N, TILE)
    pair = tl.load(pairs + m + tl.arange(0, BM)).to(tl.int64)
    expert = tl.load(of_block + m // BM)
    inside, token, column = pair < count, pair // top_k, n + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_rows = a + token[:, None] * K + depth[None, :]
    b_tiles = tl.make_tensor_descriptor(b, [experts, N, K], [N * K, K, 1], [1, BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    if BLOCK > 0:
        of_a = a_scales + token * (K // BLOCK)
        of_b = b_scales + (expert * tl.cdiv(N, BLOCK) + column // BLOCK) * (K // BLOCK)
        if BN <= BLOCK:
            of_b = b_scales + (expert * tl.cdiv(N, BLOCK) + n // BLOCK) * (K // BLOCK)
    for k in tl.range(0, K, BK):
        x = tl.load(a_rows + k, inside[:, None] & (depth < K - k)[None, :], 0.0)
        weights = b_tiles.load([expert, n, k]).reshape(BN, BK)
        if BLOCK > 0:
            a_scale = tl.load(of_a + k // BLOCK, inside, 0.0)
            part = tl.dot(x, weights.T)
            if BN <= BLOCK:
                total += part * (a_scale * tl.load(of_b + k // BLOCK))[:, None]
            else:
                b_scale = tl.load(of_b + k // BLOCK, column < N, 0.0)
                total += part * a_scale[:, None] * b_scale[None, :]
        else:
            total = tl.dot(x, weights.T, total)
    if BLOCK == 0:
        total *= tl.load(a_scales) * tl.load(b_scales + expert)
    offs = pair[:, None] * N + column[None, :]
    tl.store(c + offs, total.to(c.dtype.element_ty), inside[:, None] & (column < N)[None, :])
