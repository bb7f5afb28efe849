"""Designs that frameworks take for a shape that was not tuned."""

from __future__ import annotations


def vllm_experts(tokens: float, experts: int, *, fp8: bool, block_scaled: bool) -> dict[str, int]:
    """Return the tile of the experts of vLLM for a shape without a file.

    Args:
        tokens: Tokens of the step.
        experts: Experts on the rank.

    Source:
        vLLM 0.32.0, get_default_config in vllm/model_executor/layers/fused_moe/fused_moe.py.
    """
    if block_scaled:
        return {
            "bm": 16 if tokens <= 64 else 64,
            "bn": 64 if tokens <= 8 else 128,
            "bk": 128,
            "group": 1 if tokens <= 16 else 32,
            "warps": 4,
            "stages": 4 if tokens <= 4 else 3,
        }
    return {
        "bm": 16 if tokens <= 32 else 32 if tokens <= 96 else 64 if tokens <= 512 else 128,
        "bn": 64 if tokens <= 64 else 128,
        "bk": 128 if fp8 or tokens <= 64 else 64,
        "group": 16 if tokens / experts > 128 else 1,
        "warps": 4 if tokens <= 128 else 8,
        "stages": 4 if tokens <= 32 else 3,
    }
