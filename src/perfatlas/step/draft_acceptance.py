"""Expected number of decode steps per output with speculative decoding.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

EXACT: Final = 4096  # outputs up to this many tokens are exact; longer ones use mean steps


def decode_steps(chances: Sequence[float], tokens: FloatArray) -> FloatArray:
    """Return the expected number of decode steps for a number of output tokens (C,).

    A step produces one token plus the drafts accepted before the first rejection, at most the
    remaining tokens: S(n) = 1 + sum over k of p(k) S(n - k), with S(n) = 0 for n <= 0.

    Args:
        chances: Probability of each draft of a step that it is accepted if all previous ones are.
        tokens: Output tokens (C,), integers.

    Source: Leviathan et al., Fast inference from transformers via speculative decoding (arXiv
        2211.17192), section 3.1, for the tokens per step; own recursion for the end of outputs.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.draft_acceptance import decode_steps
        >>> decode_steps((1.0, 1.0, 1.0), np.array([0.0, 1.0, 4.0, 5.0])).tolist()
        [0.0, 1.0, 1.0, 2.0]
    """
    drafts = len(chances)
    accepted_K = np.concatenate([[1.0], np.cumprod(chances)])  # the first k drafts at least
    given_K = accepted_K - np.append(accepted_K[1:], 0.0)
    reach = int(min(tokens.max(initial=0.0), EXACT))
    steps = np.zeros(reach + drafts + 2)  # S(n) at n + drafts + 1
    for n in range(1, reach + 1):
        # S(n - 1), S(n - 2), ... S(n - drafts - 1)
        steps[n + drafts + 1] = 1.0 + given_K @ steps[n : n + drafts + 1][::-1]
    followed = np.minimum(tokens, reach).astype(np.int64)
    mean = float(given_K @ np.arange(1, drafts + 2))
    total_C: FloatArray = steps[followed + drafts + 1] + (tokens - followed) / mean
    return total_C
