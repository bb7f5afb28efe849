"""How many decode steps an output takes where drafts are accepted by chance.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

EXACT: Final = 4096  # tokens up to which every output is followed; then each step gives its mean


def decode_steps(drafts: int, chance: float, tokens: FloatArray) -> FloatArray:
    """Return the mean number of decode steps that give some tokens of a sequence (C,).

    A step gives one token and the drafts accepted before the first rejected, at most what is left:
    S(n) = 1 + sum over k of p(k) S(n - k), with S(n) = 0 from n = 0 down.

    Args:
        drafts: Drafted per step.
        chance: That a draft is accepted where all before it are.
        tokens: To be given (C,), whole.

    Source: Leviathan et al., Fast inference from transformers via speculative decoding (arXiv
        2211.17192), section 3.1, for the tokens of a step; the end of an output by recursion.

    Example:
        >>> import numpy as np
        >>> from perfatlas.step.draft_acceptance import decode_steps
        >>> decode_steps(3, 1.0, np.array([0.0, 1.0, 4.0, 5.0])).tolist()
        [0.0, 1.0, 1.0, 2.0]
    """
    given_K = np.append(chance ** np.arange(drafts) * (1.0 - chance), chance**drafts)
    reach = int(min(tokens.max(initial=0.0), EXACT))
    steps = np.zeros(reach + drafts + 2)  # S(n) at n + drafts + 1
    for n in range(1, reach + 1):
        # S(n - 1), S(n - 2), ... S(n - drafts - 1)
        steps[n + drafts + 1] = 1.0 + given_K @ steps[n : n + drafts + 1][::-1]
    followed = np.minimum(tokens, reach).astype(np.int64)
    mean = float(given_K @ np.arange(1, drafts + 2))
    total_C: FloatArray = steps[followed + drafts + 1] + (tokens - followed) / mean
    return total_C
