"""Attention: forward over whole sequences, and decode over a paged cache in splits.

Logarithms are in powers of two. The running maximum starts at a finite number, so that rows
without a visible key so far subtract no infinities; as a power of two it is scaled exactly, so that
a fused multiply-add leaves nothing of it.

Where Triton 3.9 splits rows over two warp groups on sm_90, it moves a scalar that is a coordinate
of a descriptor to the rows of the second group, and ranges as well: rows that are compared or
stored start at a scalar of another expression, or they would move twice.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-(2.0**100))


@triton.jit
def _nothing(ROWS: tl.constexpr, D: tl.constexpr) -> tl.tuple:
    """Return the state of rows that have seen no key."""
    total = tl.zeros((ROWS, D), tl.float32)
    return total, tl.zeros((ROWS,), tl.float32), tl.full((ROWS,), LOWEST, tl.float32)


@triton.jit
def _added(state: tl.tuple, scores: tl.tensor, scale: tl.tensor, values: tl.tensor) -> tl.tuple:
    """Return output, sum and maximum of rows with a block of keys more.

    Args:
        state: Unscaled output (rows, dim), sum and maximum of each row.
        scores: Products of queries and keys (rows, keys).
        scale: Of scores, times log2(e).
        values: (keys, dim).
    """
    total, norm, top = state
    above = tl.maximum(top, tl.max(scores, 1) * scale)
    share = tl.exp2(scores * scale - above[:, None])
    faded = tl.exp2(top - above)
    total = tl.dot(share.to(values.dtype), values, total * faded[:, None])
    return total, norm * faded + tl.sum(share, 1), above


@triton.jit
def attention(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    out: tl.tensor,
    logarithms: tl.tensor,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write softmax(scale Q K^T) V and logarithms of its sums; the last query sees the last key.

    Args:
        q: (batch, heads, queries, dim).
        logarithms: (batch, heads, queries up to a multiple of 4), for the backward pass.
        sizes: Heads, KV heads, queries, keys, scale times log2(e).
        TILE: Queries and keys of a block, dim, causal, window (0 for none), warp specialization:
            0 none, 1 of the loop without a mask and the loop with one, 2 of one loop with a mask.
    """
    heads, kv_heads, queries, keys, scale = sizes
    BM: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    D: tl.constexpr = TILE[2]
    CAUSAL: tl.constexpr = TILE[3]
    WINDOW: tl.constexpr = TILE[4]
    ROLES: tl.constexpr = TILE[5]
    m = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM  # the longest of a causal mask first
    head = tl.program_id(1).to(tl.int64)
    kv_head = head // heads * kv_heads + head % heads // (heads // kv_heads)
    first, of_kv = head * queries * D, kv_head * keys * D
    q_tiles = tl.make_tensor_descriptor(q + first, [queries, D], [D, 1], [BM, D])
    k_tiles = tl.make_tensor_descriptor(k + of_kv, [keys, D], [D, 1], [BN, D])
    v_tiles = tl.make_tensor_descriptor(v + of_kv, [keys, D], [D, 1], [BN, D])
    out_tiles = tl.make_tensor_descriptor(out + first, [queries, D], [D, 1], [BM, D])
    query = q_tiles.load([m, 0])
    row = (tl.num_programs(0) - tl.program_id(0)) * BM - BM + tl.arange(0, BM)  # from m
    last = tl.full((BM,), 0, tl.int32) + keys - 1  # the last visible key of each row
    end, whole, start = keys, keys // BN * BN, 0
    if CAUSAL:
        last = tl.minimum(last, keys - queries + row)
        end = tl.minimum(keys, keys - queries + m + BM)
        whole = tl.minimum(whole, (keys - queries + m + 1) // BN * BN)
    if WINDOW > 0:
        start = tl.maximum(keys - queries + m - WINDOW + 1, 0) // BN * BN
        whole = start
    if ROLES == 2:
        whole = start
    total, norm, top = _nothing(BM, D)
    if ROLES < 2 and WINDOW == 0:
        for n in tl.range(start, whole, BN, warp_specialize=ROLES == 1):
            scores = tl.dot(query, k_tiles.load([n, 0]).T)
            values = v_tiles.load([n, 0])
            total, norm, top = _added((total, norm, top), scores, scale, values)
    # a causal mask leaves few blocks here, too few for a pipeline
    STAGES: tl.constexpr = None if WINDOW > 0 or ROLES > 0 else 1
    for n in tl.range(whole, end, BN, num_stages=STAGES, warp_specialize=ROLES > 0):
        scores = tl.dot(query, k_tiles.load([n, 0]).T)
        key = n + tl.arange(0, BN)
        visible = key[None, :] <= last[:, None]
        if WINDOW > 0:
            visible = visible & (key[None, :] > keys - queries - WINDOW + row[:, None])
        scores = tl.where(visible, scores, LOWEST)
        values = v_tiles.load([n, 0])
        total, norm, top = _added((total, norm, top), scores, scale, values)
    out_tiles.store([m, 0], (total / norm[:, None]).to(out.dtype.element_ty))
    of_head = head * (tl.cdiv(queries, 4) * 4)
    tl.store(logarithms + of_head + row, top + tl.log2(norm), row < queries)


@triton.jit
def _store_part(
    parts: tl.tuple, state: tl.tuple, row: tl.tensor, inside: tl.tensor, D: tl.constexpr
) -> None:
    """Write the normalized output of a split and the logarithm of its sum, in powers of two.

    Args:
        parts: Outputs (rows, splits, D) and logarithms (rows, splits).
    """
    outputs, logarithms = parts
    total, norm, top = state
    offs = row * tl.num_programs(2) + tl.program_id(2)
    total = total / tl.where(norm > 0.0, norm, 1.0)[:, None]
    tl.store(outputs + offs[:, None] * D + tl.arange(0, D)[None, :], total, inside[:, None])
    logarithm = tl.where(norm > 0.0, top + tl.log2(tl.where(norm > 0.0, norm, 1.0)), LOWEST)
    tl.store(logarithms + offs, logarithm, inside)


@triton.jit
def decode(
    q: tl.tensor,
    caches: tl.tuple,
    tables: tl.tuple,
    parts: tl.tuple,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the attention of one query of each sequence over a split of its cached keys.

    A program has all query heads of a KV head, so that each key is read once.

    Args:
        q: (sequences, heads, dim).
        tables: Pages of each sequence (sequences, pages), and lengths (sequences).
        parts: Outputs (sequences, heads, splits, dim) and logarithms (sequences, heads, splits).
        sizes: Heads, KV heads, pages of a row of the table, scale times log2(e).
    """
    heads, kv_heads, pages, scale = sizes
    BH: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    D: tl.constexpr = TILE[2]
    PAGE: tl.constexpr = TILE[3]
    k_cache, v_cache = caches
    table, lengths = tables
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    of_group = tl.arange(0, BH)
    head = kv_head * (heads // kv_heads) + of_group
    row, inside = sequence * heads + head, of_group < heads // kv_heads
    dim = tl.arange(0, D)
    query = tl.load(q + row[:, None] * D + dim[None, :], inside[:, None], 0.0)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, BN), tl.num_programs(2)) * BN
    start = tl.program_id(2) * share
    total, norm, top = _nothing(BH, D)
    for n in tl.range(start, tl.minimum(length, start + share), BN):
        key = n + tl.arange(0, BN)
        page = tl.load(table + sequence * pages + key // PAGE, key < length, 0).to(tl.int64)
        offs = ((page * PAGE + key % PAGE) * kv_heads + kv_head)[:, None] * D + dim[None, :]
        visible = (key < length)[:, None]
        scores = tl.dot(query, tl.load(k_cache + offs, visible, 0.0).T)
        scores = tl.where((key < length)[None, :], scores, LOWEST)
        values = tl.load(v_cache + offs, visible, 0.0)
        total, norm, top = _added((total, norm, top), scores, scale, values)
    _store_part(parts, (total, norm, top), row, inside, D)


@triton.jit
def decode_mla(
    q: tl.tensor,
    cache: tl.tensor,
    tables: tl.tuple,
    parts: tl.tuple,
    sizes: tl.tuple,
    TILE: tl.constexpr,
) -> None:
    """Write the attention of one query of each sequence over a split of its latent cache.

    Values are the latent part of the keys.

    Args:
        q: (sequences, heads, latent + rotary).
        cache: (pages, page, latent + rotary).
        tables: Pages of each sequence (sequences, pages), and lengths (sequences).
        parts: Outputs (sequences, heads, splits, latent) and logarithms.
        sizes: Heads, pages of a row of the table, scale times log2(e).
    """
    heads, pages, scale = sizes
    BH: tl.constexpr = TILE[0]
    BN: tl.constexpr = TILE[1]
    D: tl.constexpr = TILE[2]
    R: tl.constexpr = TILE[3]
    PAGE: tl.constexpr = TILE[4]
    table, lengths = tables
    sequence = tl.program_id(0)
    head = tl.program_id(1) * BH + tl.arange(0, BH)
    row, inside = sequence * heads + head, head < heads
    dim, rotary = tl.arange(0, D), D + tl.arange(0, R)
    of_query = row[:, None] * (D + R)
    latent_query = tl.load(q + of_query + dim[None, :], inside[:, None], 0.0)
    rotary_query = tl.load(q + of_query + rotary[None, :], inside[:, None], 0.0)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, BN), tl.num_programs(2)) * BN
    start = tl.program_id(2) * share
    total, norm, top = _nothing(BH, D)
    for n in tl.range(start, tl.minimum(length, start + share), BN):
        key = n + tl.arange(0, BN)
        page = tl.load(table + sequence * pages + key // PAGE, key < length, 0).to(tl.int64)
        offs = (page * PAGE + key % PAGE)[:, None] * (D + R)
        visible = (key < length)[:, None]
        latent = tl.load(cache + offs + dim[None, :], visible, 0.0)
        scores = tl.dot(latent_query, latent.T)
        rotary_key = tl.load(cache + offs + rotary[None, :], visible, 0.0)
        scores = tl.dot(rotary_query, rotary_key.T, scores)
        scores = tl.where((key < length)[None, :], scores, LOWEST)
        total, norm, top = _added((total, norm, top), scores, scale, latent)
    _store_part(parts, (total, norm, top), row, inside, D)


@triton.jit
def combine(parts: tl.tuple, out: tl.tensor, splits: tl.tensor, TILE: tl.constexpr) -> None:
    """Write the outputs of all splits as one.

    Args:
        parts: Outputs (rows, splits, dim) and logarithms (rows, splits).
        out: (rows, dim).
    """
    outputs, logarithms = parts
    row, split, dim = tl.program_id(0), tl.arange(0, TILE[0]), tl.arange(0, TILE[1])
    logarithm = tl.load(logarithms + row * splits + split, split < splits, LOWEST)
    weight = tl.exp2(logarithm - tl.max(logarithm, 0))
    offs = (row * splits + split)[:, None] * TILE[1] + dim[None, :]
    values = tl.load(outputs + offs, (split < splits)[:, None], 0.0)
    total = tl.sum(values * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(out + row * TILE[1] + dim, total.to(out.dtype.element_ty))
