"""Gradients of attention, from the output and the logarithms of its forward pass.

Keys and queries have a kernel each, so that sums are added in one order, without atomics.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

LN_2 = tl.constexpr(math.log(2.0))


@triton.jit
def attention_delta(
    out: tl.tensor, gradient: tl.tensor, delta: tl.tensor, rows: tl.tensor, TILE: tl.constexpr
) -> None:
    """Write the sum over dim of output times its gradient.

    Args:
        out: (rows, dim).
        TILE: Rows, dim.
    """
    row = tl.program_id(0).to(tl.int64) * TILE[0] + tl.arange(0, TILE[0])
    offs, inside = row[:, None] * TILE[1] + tl.arange(0, TILE[1])[None, :], row < rows
    product = tl.load(out + offs, inside[:, None], 0.0).to(tl.float32)
    product *= tl.load(gradient + offs, inside[:, None], 0.0).to(tl.float32)
    tl.store(delta + row, tl.sum(product, 1), inside)


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
        gradient: Of the output.
        rows: Logarithms of the forward pass and delta (batch, heads, queries).
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
    of_queries, all_rows = kv_head * group * queries, tl.num_programs(1) * group * queries
    of_kv = kv_head.to(tl.int64) * keys * D
    q_tiles = tl.make_tensor_descriptor(q, [all_rows, D], [D, 1], [BM, D])
    gradient_tiles = tl.make_tensor_descriptor(gradient, [all_rows, D], [D, 1], [BM, D])
    k_tiles = tl.make_tensor_descriptor(k + of_kv, [keys, D], [D, 1], [BN, D])
    v_tiles = tl.make_tensor_descriptor(v + of_kv, [keys, D], [D, 1], [BN, D])
    dk_tiles = tl.make_tensor_descriptor(dk + of_kv, [keys, D], [D, 1], [BN, D])
    dv_tiles = tl.make_tensor_descriptor(dv + of_kv, [keys, D], [D, 1], [BN, D])
    first = tl.maximum(n + queries - keys, 0) // BM if TILE[3] else 0
    blocks = tl.cdiv(queries, BM) - first
    key, value = k_tiles.load([n, 0]), v_tiles.load([n, 0])
    total_k, total_v = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for step in tl.range(0, blocks * group, warp_specialize=TILE[4] > 0):
        m = (first + step % blocks) * BM
        of_head, row = of_queries + step // blocks * queries, m + tl.arange(0, BM)
        query = q_tiles.load([of_head + m, 0])
        logarithm = tl.load(logarithms + of_head + row, row < queries, 0.0)
        share = tl.exp2(tl.dot(key, query.T) * scale - logarithm[None, :])
        visible = (row < queries)[None, :]
        if TILE[3]:
            visible = visible & (n + tl.arange(0, BN)[:, None] <= keys - queries + row[None, :])
        share = tl.where(visible, share, 0.0)
        of_output = gradient_tiles.load([of_head + m, 0])
        total_v = tl.dot(share.to(of_output.dtype), of_output, total_v)
        delta = tl.load(deltas + of_head + row, row < queries, 0.0)
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
        gradient: Of the output.
        rows: Logarithms of the forward pass and delta (batch, heads, queries).
        sizes: Heads, KV heads, queries, keys, scale times log2(e).
        TILE: Queries and keys of a block, dim, causal.
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
    row = m + tl.arange(0, BM)
    last = tl.full((BM,), 0, tl.int32) + keys - 1  # the last visible key of each row
    end = keys
    if TILE[3]:
        last = tl.minimum(last, keys - queries + row)
        end = tl.minimum(keys, keys - queries + m + BM)
    logarithm = tl.load(logarithms + head * queries + row, row < queries, 0.0)
    delta = tl.load(deltas + head * queries + row, row < queries, 0.0)
    total = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, end, BN):
        key = k_tiles.load([n, 0])
        share = tl.exp2(tl.dot(query, key.T) * scale - logarithm[:, None])
        share = tl.where(n + tl.arange(0, BN)[None, :] <= last[:, None], share, 0.0)
        of_shares = tl.dot(of_output, v_tiles.load([n, 0]).T)
        of_scores = share * (of_shares - delta[:, None])
        total = tl.dot(of_scores.to(key.dtype), key, total)
    dq_tiles.store([m, 0], (total * (scale * LN_2)).to(query.dtype))
