"""A GEMM in Triton, and what `perfatlas kernel inspect` needs to compile it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b_tiles = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    c_tiles = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(a_tiles.load([m, k]), b_tiles.load([n, k]).T, total)
    c_tiles.store([m, n], total.to(tl.bfloat16))


KERNELS = {
    "gemm": {
        "signature": {"a": "*bf16", "b": "*bf16", "c": "*bf16", "M": "i32", "N": "i32", "K": "i32"},
        "constants": {"BM": 128, "BN": 128, "BK": 64},
        "aligned": ["a", "b", "c", "M", "N", "K"],  # multiples of 16
        "options": {"num_warps": 8, "num_stages": 3},
    }
}
