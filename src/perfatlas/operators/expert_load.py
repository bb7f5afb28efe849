"""How tokens fall on the experts of a layer: a word of the vocabulary, a number for the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators.work import FloatArray

BALANCED: Final = 0.0  # rows are dealt out: an expert is idle only where there are too few rows
UNIFORM: Final = -1.0  # every token draws its experts evenly and alone: some are idle, some busy


def load_skew(distribution: str) -> float:
    """Return the number a kernel reads: `UNIFORM`, `BALANCED` or the exponent of a power law.

    Args:
        distribution: "uniform", "balanced" or "power_law_<alpha>".

    Example:
        >>> from perfatlas.operators import load_skew
        >>> load_skew("uniform"), load_skew("balanced"), load_skew("power_law_1.2")
        (-1.0, 0.0, 1.2)
    """
    if distribution == "uniform":
        return UNIFORM
    if distribution == "balanced":
        return BALANCED
    return float(distribution.removeprefix("power_law_"))


def least_active_experts(
    distribution: str, tokens: FloatArray, experts: FloatArray, top_k: FloatArray, ep: FloatArray
) -> FloatArray:
    """Return the fewest experts of one rank whose weights must be read (C,).

    Balanced rows spread over as many experts as they can. Of evenly drawn ones the expected
    number, E (1 - (1 - k/E)^T), is read. A skewed router may send every token to the same top_k.

    Args:
        distribution: As in `load_skew`.
        tokens: Tokens of the group (C,).
        experts: Routed experts of the layer (C,).
        top_k: Experts per token (C,).
        ep: Expert-parallel ranks (C,).
    """
    skew = load_skew(distribution)
    rows = tokens * top_k / ep
    if skew == BALANCED:
        active = rows
    elif skew == UNIFORM:
        share = np.minimum(top_k / experts, 1.0)
        active = experts / ep * (1.0 - (1.0 - share) ** tokens)
    else:
        active = np.minimum(rows, top_k / ep)
    found: FloatArray = np.minimum(active, experts / ep)
    return found
