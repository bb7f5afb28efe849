"""FLOP and bytes of recurrences, shared by several packages.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perfatlas.operators.work import FloatArray

# Tokens per chunk of gated delta net kernels (arXiv 2412.06464); no causal saving in a chunk.
DELTA_CHUNK: Final = 64.0


def delta_rule_flop(
    key_dim: float | FloatArray, value_dim: float | FloatArray, chunk: float
) -> float | FloatArray:
    """Return the arithmetic of the gated delta rule per token and value head [FLOP].

    Recurrent form (chunk 0) with a state of d_k x d_v: decay 1, read of the key 2, rank-one update
    2, read of the query 2, that is 7 d_k d_v. Chunked form with C tokens: three products with the
    state 6 d_k d_v, and inside the chunk K K^T, Q K^T and the key side of the WY form 3 x 2 C d_k,
    the value side and the output 2 x 2 C d_v, the triangular inverse C^2/3.

    Args:
        key_dim: Width of a key head.
        value_dim: Width of a value head.
        chunk: Tokens per chunk, 0 for the recurrent form.

    Source: Yang, Kautz, Hatamizadeh 2024, Gated Delta Networks (arXiv 2412.06464) equation 10 and
        section 3.3.

    Example:
        >>> from perfatlas.operators import delta_rule_flop
        >>> delta_rule_flop(128.0, 128.0, 0.0)
        114688.0
    """
    if not chunk:
        return 7.0 * key_dim * value_dim
    inside = 2.0 * chunk * (3.0 * key_dim + 2.0 * value_dim) + chunk * chunk / 3.0
    return 6.0 * key_dim * value_dim + inside


def delta_rule_width(
    key_heads: float | FloatArray,
    key_dim: float | FloatArray,
    value_heads: float | FloatArray,
    value_dim: float | FloatArray,
) -> float | FloatArray:
    """Return elements that the gated delta rule reads and writes per token, without its states.

    Inputs: queries, keys, values, decays and strengths. Output: one value per head.

    Args:
        key_heads: Query and key heads.
        key_dim: Width of a key head.
        value_heads: Value heads, each with a state.
        value_dim: Width of a value head.
    """
    return 2.0 * key_heads * key_dim + 2.0 * value_heads * value_dim + 2.0 * value_heads
