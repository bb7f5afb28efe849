"""The fixed lists of shapes of `gpu_kernels.py`: rows in the schema of measured rows.

A list is part of every result: rename the suite when it changes.
"""

from __future__ import annotations

import math
import random
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = "kernels300"
RANDOM_SUITE = "random260"
RANDOM_SEED = 20261122

# (n, k) of dense layers: Llama-3-8B, Llama-3-70B whole and at TP 8, Qwen3-32B, a power-of-two pair.
GEMM_BF16 = (
    *((6144, 4096), (4096, 14336), (28672, 4096)),
    *((10240, 8192), (8192, 28672), (57344, 8192), (1280, 8192), (7168, 8192), (8192, 3584)),
    *((51200, 5120), (5120, 25600), (4096, 4096)),
)
GEMM_BF16_M = (1, 8, 16, 64, 128, 129, 256, 1024, 4096, 8192)
GEMM_FP8 = ((6144, 4096), (4096, 14336), (10240, 8192), (8192, 28672), (1280, 8192), (5120, 25600))
GEMM_FP8_M = (16, 64, 128, 512, 2048, 8192)
# (hidden, intermediate, experts, top_k): Mixtral-8x7B, Qwen3-30B-A3B, Qwen3-235B-A22B at TP 4,
# gpt-oss-like.
EXPERTS = ((4096, 14336, 8, 2), (2048, 768, 128, 8), (4096, 384, 128, 8), (2880, 2880, 32, 4))
EXPERT_TOKENS = (1, 16, 64, 256, 1024, 4096)
# (query heads, key-value heads, head width)
HEADS = (
    *((32, 8, 128), (64, 8, 128), (8, 1, 128), (32, 32, 128)),
    *((40, 8, 128), (16, 2, 128), (64, 8, 64), (32, 4, 128)),
)
PREFILL = ((1, 512), (1, 2048), (1, 8192), (4, 1024), (8, 2048))  # sequences, tokens of each
DECODE = ((1, 1024), (1, 32768), (16, 2048), (64, 1024), (64, 8192))  # sequences, keys of each
ROW_TOKENS = (1, 64, 512, 4096, 16384)
ROW_WIDTHS = (4096, 8192, 16384)
COPY_BYTES = (*(2**power for power in range(16, 31, 2)), 3 * 2**20, 3 * 2**26)
COPY_TOKENS = 1024


def shapes() -> tuple[dict[str, Any], ...]:
    """Return the rows to measure, each with operator, format, kernel and shape columns."""
    return (
        *_gemms("bf16", "matmul", GEMM_BF16, GEMM_BF16_M),
        *_gemms("fp8_static", "scaled_mm", GEMM_FP8, GEMM_FP8_M),
        *_experts(),
        *_attention(),
        *_passes("rms_norm", 4),
        *_passes("cast_fp8", 3),
        *(
            _row("streaming", "copy", bytes=size, tokens=COPY_TOKENS, cold_bytes=0)
            for size in COPY_BYTES
        ),
    )


def random_shapes() -> tuple[dict[str, Any], ...]:
    """Return 260 random shapes: sizes are log-uniform and mostly no multiples of a tile.

    n and k are multiples of 8 elements in bf16 and of 16 in fp8, as the libraries require aligned
    rows; one bf16 product in five has arbitrary n and k.
    """
    draws = random.Random(RANDOM_SEED)  # noqa: S311 - a fixed list, not a secret

    def size(least: int, most: int, multiple: int = 1) -> int:
        drawn = math.exp(math.log(least) + draws.random() * math.log(most / least))
        return max(multiple, round(drawn / multiple) * multiple)

    found: list[dict[str, Any]] = []
    for form, kernel, count in (("bf16", "matmul", 140), ("fp8_static", "scaled_mm", 60)):
        for number in range(count):
            aligned = 16 if form == "fp8_static" else 1 if number % 5 == 4 else 8
            sizes = {"n": size(256, 32768, aligned), "k": size(256, 32768, aligned)}
            row = _row("gemm", kernel, m=size(1, 16384), **sizes, quantize=0)
            found.append(row | {"format": form})
    for operator in ("prefill_attention", "decode_attention"):
        found += [_random_attention(operator, size) for _ in range(30)]
    return tuple(found)


def _random_attention(operator: str, size: Callable[..., int]) -> dict[str, Any]:
    kv_heads = size(1, 16)
    sizes = {"num_kv_heads": kv_heads, "num_heads": kv_heads * size(1, 8)}
    if operator == "prefill_attention":
        q_len = kv_len = size(128, 8192)
        batch = size(1, max(2, 32768 // q_len))
    else:
        q_len, kv_len = 1, size(128, 32768)
        batch = size(1, max(2, min(256, 2**20 // kv_len)))
    width = (64, 128)[size(1, 16) % 2]
    lengths = {"batch": batch, "q_len": q_len, "kv_len": kv_len, "head_dim": width}
    return _row(operator, "sdpa", **lengths, **sizes) | {"window": 0, "kv_format": "bf16"}


def _row(operator: str, kernel: str, **columns: object) -> dict[str, Any]:
    return {"operator": operator, "kernel": kernel, "format": "bf16", **columns}


def _gemms(
    form: str, kernel: str, sides: tuple[tuple[int, int], ...], rows: tuple[int, ...]
) -> list[dict[str, Any]]:
    return [
        _row("gemm", kernel, m=m, n=n, k=k, quantize=0) | {"format": form}
        for (n, k), m in product(sides, rows)
    ]


def _experts() -> list[dict[str, Any]]:
    names = ("hidden", "intermediate", "experts", "top_k")
    return [
        _row("moe", "grouped_mm", tokens=tokens, ep=1, moe_tp=1, matrices=3)
        | {"distribution": "balanced", **dict(zip(names, sizes, strict=True))}
        for sizes, tokens in product(EXPERTS, EXPERT_TOKENS)
    ]


def _attention() -> list[dict[str, Any]]:
    found = []
    for operator, loads in (("prefill_attention", PREFILL), ("decode_attention", DECODE)):
        for (heads, kv_heads, width), (batch, length) in product(HEADS, loads):
            sizes = {"num_heads": heads, "num_kv_heads": kv_heads, "head_dim": width}
            q_len = length if operator == "prefill_attention" else 1
            found.append(
                _row(operator, "sdpa", batch=batch, q_len=q_len, kv_len=length, **sizes)
                | {"window": 0, "kv_format": "bf16"}
            )
    return found


def _passes(kernel: str, bytes_per_element: int) -> list[dict[str, Any]]:
    """Return elementwise passes: 2 bytes in and 2 or 1 out for each element."""
    return [
        _row(
            "streaming",
            kernel,
            bytes=tokens * width * bytes_per_element,
            tokens=tokens,
            cold_bytes=0,
        )
        for tokens, width in product(ROW_TOKENS, ROW_WIDTHS)
    ]


# Suite -> its shapes.
SUITES: dict[str, Callable[[], tuple[dict[str, Any], ...]]] = {
    SUITE: shapes,
    RANDOM_SUITE: random_shapes,
}
