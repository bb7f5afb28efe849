"""When prompts that start together are computed, in the order of their arrival.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray


def mean_progress(prompts: FloatArray, new_tokens: FloatArray, budget: FloatArray) -> FloatArray:
    """Return the mean share of all steps after which one of equal prompts is computed (C,).

    Steps hold `budget` tokens of prompts in their order, the last one what is left. Prompt i ends
    with step ceil(i new / budget).

    Args:
        prompts: Prompts that start together (C,).
        new_tokens: Tokens to compute of each (C,).
        budget: Maximum tokens per step (C,).

    Limits: Whole prompts and tokens. A step takes a time in proportion to its tokens.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.prompt_order import mean_progress
        >>> one = np.ones(1)
        >>> float(mean_progress(4 * one, 100 * one, 200 * one)[0])  # two after half, two at the end
        0.75
    """
    count, new, most = (
        np.maximum(np.rint(one), 1.0).astype(np.int64) for one in (prompts, new_tokens, budget)
    )
    steps = -(-count * new // most)
    ended = ceil_sum(count, new, most) * most  # tokens computed when each ends, over all prompts
    in_last = count - (steps - 1) * most // new
    ended -= in_last * (steps * most - count * new)
    share_C: FloatArray = ended / (count * count * new)
    return share_C


def ceil_sum(number: IntArray, numerator: IntArray, denominator: IntArray) -> IntArray:
    """Return the sum of ceil(i numerator / denominator) for i from 1 to a number (C,).

    As many iterations as the algorithm of Euclid takes for numerator and denominator.

    Args:
        number: Terms, at least 1 (C,).
        numerator: At least 0 (C,).
        denominator: At least 1 (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.prompt_order import ceil_sum
        >>> int(ceil_sum(np.array([3]), np.array([2]), np.array([3]))[0])  # 1 + 2 + 2
        5
    """
    n, a, m = number.copy(), numerator.copy(), denominator.copy()
    b = a + m - 1  # sum of floor((a i + b) / m) for i from 0 to n - 1
    total = np.zeros_like(n)
    while n.any():
        total += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        n, b = top // m, top % m
        a, m = m, np.where(n > 0, a, 1)
    return total
