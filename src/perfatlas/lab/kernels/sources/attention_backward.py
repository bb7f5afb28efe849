"""Gradients of attention, from the output and the logarithms of its forward pass.

Keys and queries have a kernel each, so that sums are added in one order, without atomics. Rows that
are compared start at a scalar of another expression than coordinates, as in `attention`.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

LN_2 = tl.constexpr(math.log(2.0))


@triton.jit
def attention_delta(
    out: tl.tensor, gradient: tl.tensor, delta: tl.tensor, queries: tl.tensor, TILE: tl.constexpr
) -> None:
    """Write the sum over dim of output times its gradient, and zeros beyond the last query.

    Args:
        out: (batch, heads, queries, dim).
        delta: (batch, heads, queries up to a multiple of 4).
        TILE: Queries of a block, dim.
    """
    row, head = tl.program_id(0) * TILE[0] + tl.arange(0, TILE[0]), tl.program_id(1).to(tl.int64)
    offs = (head * queries + row)[:, None] * TILE[1] + tl.arange(0, TILE[1])[None, :]
    inside, pitch = (row < queries)[:, None], tl.cdiv(queries, 4) * 4
    product = tl.load(out + offs, inside, 0.0).to(tl.float32)
    product *= tl.load(gradient + offs, inside, 0.0).to(tl.float32)
    tl.store(delta + head * pitch + row, tl.sum(product, 1), row < pitch)


@triton.jit
def attention_dkdv(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    gradient: tl.tensor,
    rows: tl.tuple,
    gradients: tl.tuple,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the gradients of K and V, summed over the query heads of each KV head.

    Scores are transposed, so that those of the two products with keys as rows stay in registers.

    Args:
        q: (batch, heads, queries, dim).
        k: (batch, KV heads, keys, dim).
        gradient: Gradient of the output, as q.
        rows: Logarithms of the forward pass and delta (batch, heads, queries up to a multiple of 4,
            which descriptors need).
        sizes: Heads, KV heads, queries, keys, scale times log2(e).
        TILE: Queries and keys of a block, dim, causal, warp specialization (0 or 1).
    """
    heads, kv_heads, queries, keys, scale = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    D: tl.constexpr = TILE[2]
    logarithms, deltas = rows
    dk, dv = gradients
    n, kv_head, group = tl.program_id(0) * BN, tl.program_id(1), heads // kv_heads
    all_rows, pitch = tl.num_programs(1) * group * queries, tl.cdiv(queries, 4) * 4
    padded_rows = tl.num_programs(1) * group * pitch
    of_kv = kv_head.to(tl.int64) * keys * D
    q_tiles = tl.make_tensor_descriptor(q, [all_rows, D], [D, 1], [BM, D])
    gradient_tiles = tl.make_tensor_descriptor(gradient, [all_rows, D], [D, 1], [BM, D])
    logarithm_rows = tl.make_tensor_descriptor(logarithms, [padded_rows], [1], [BM])
    delta_rows = tl.make_tensor_descriptor(deltas, [padded_rows], [1], [BM])
    k_tiles = tl.make_tensor_descriptor(k + of_kv, [keys, D], [D, 1], [BN, D])
    v_tiles = tl.make_tensor_descriptor(v + of_kv, [keys, D], [D, 1], [BN, D])
    dk_tiles = tl.make_tensor_descriptor(dk + of_kv, [keys, D], [D, 1], [BN, D])
    dv_tiles = tl.make_tensor_descriptor(dv + of_kv, [keys, D], [D, 1], [BN, D])
    first = tl.maximum(n + queries - keys, 0) // BM if TILE[3] else 0
    blocks = tl.cdiv(queries, BM) - first
    key, value = k_tiles.load([n, 0]), v_tiles.load([n, 0])
    total_k, total_v = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    column = (tl.program_id(0) + 1) * BN - BN + tl.arange(0, BN)  # from n
    for step in tl.range(0, blocks * group, warp_specialize=TILE[4] > 0):
        m = (first + step % blocks) * BM
        head, row = kv_head * group + step // blocks, m + tl.arange(0, BM)
        query = q_tiles.load([head * queries + m, 0])
        logarithm = logarithm_rows.load([head * pitch + m])
        share = tl.exp2(tl.dot(key, query.T) * scale - logarithm[None, :])
        last = row + keys - queries if TILE[3] else row + keys  # the last visible key of each row
        last = tl.where(row < queries, last, -1)  # beyond it are rows of the next head
        share = tl.where(column[:, None] <= last[None, :], share, 0.0)
        of_output = gradient_tiles.load([head * queries + m, 0])
        total_v = tl.dot(share.to(of_output.dtype), of_output, total_v)
        delta = delta_rows.load([head * pitch + m])
        of_scores = share * (tl.dot(value, of_output.T) - delta[None, :])
        total_k = tl.dot(of_scores.to(query.dtype), query, total_k)
    dk_tiles.store([n, 0], (total_k * (scale * LN_2)).to(dk.dtype.element_ty))
    dv_tiles.store([n, 0], total_v.to(dv.dtype.element_ty))


@triton.jit
def attention_dq(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    gradient: tl.tensor,
    rows: tl.tuple,
    gradients: tl.tuple,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the gradient of Q.

    Args:
        q: (batch, heads, queries, dim).
        k: (batch, KV heads, keys, dim).
        gradient: Gradient of the output, as q.
        rows: Logarithms of the forward pass and delta (batch, heads, queries up to a multiple of 4,
            which descriptors need).
        sizes: Heads, KV heads, queries, keys, scale times log2(e).
        TILE: Queries and keys of a block, dim, causal, warp specialization (0 or 1).
    """
    heads, kv_heads, queries, keys, scale = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    D: tl.constexpr = TILE[2]
    logarithms, deltas = rows
    m = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM  # the longest of a causal mask first
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // heads * kv_heads + head % heads // (heads // kv_heads)
    of_head, of_kv = head * queries * D, kv_head * keys * D
    q_tiles = tl.make_tensor_descriptor(q + of_head, [queries, D], [D, 1], [BM, D])
    gradient_tiles = tl.make_tensor_descriptor(gradient + of_head, [queries, D], [D, 1], [BM, D])
    dq_tiles = tl.make_tensor_descriptor(gradients[0] + of_head, [queries, D], [D, 1], [BM, D])
    k_tiles = tl.make_tensor_descriptor(k + of_kv, [keys, D], [D, 1], [BN, D])
    v_tiles = tl.make_tensor_descriptor(v + of_kv, [keys, D], [D, 1], [BN, D])
    query, of_output = q_tiles.load([m, 0]), gradient_tiles.load([m, 0])
    row = (tl.num_programs(0) - tl.program_id(0)) * BM - BM + tl.arange(0, BM)  # from m
    last = tl.full((BM,), 0, tl.int32) + keys - 1  # the last visible key of each row
    end = keys
    if TILE[3]:
        last = tl.minimum(last, keys - queries + row)
        end = tl.minimum(keys, keys - queries + m + BM)
    # by descriptors, since Triton splits no other loads over warp groups
    pitch = tl.cdiv(queries, 4) * 4
    all_rows, at = tl.num_programs(1) * pitch, tl.program_id(1) * pitch + m
    logarithm = tl.make_tensor_descriptor(logarithms, [all_rows], [1], [BM]).load([at])
    delta = tl.make_tensor_descriptor(deltas, [all_rows], [1], [BM]).load([at])
    total = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, end, BN, warp_specialize=TILE[4] > 0):
        key = k_tiles.load([n, 0])
        share = tl.exp2(tl.dot(query, key.T) * scale - logarithm[:, None])
        share = tl.where(n + tl.arange(0, BN)[None, :] <= last[:, None], share, 0.0)
        of_shares = tl.dot(of_output, v_tiles.load([n, 0]).T)
        of_scores = share * (of_shares - delta[:, None])
        total = tl.dot(of_scores.to(key.dtype), key, total)
    dq_tiles.store([m, 0], (total * (scale * LN_2)).to(query.dtype))
