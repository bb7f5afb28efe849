"""Distribution of tokens over the experts of a layer, as a name and as a kernel argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators.work import FloatArray

BALANCED: Final = 0.0  # equal loads: an expert is idle only if there are too few rows
UNIFORM: Final = -1.0  # tokens choose experts at random, independently: loads vary


def load_skew(distribution: str) -> float:
    """Return the kernel argument: `UNIFORM`, `BALANCED` or the exponent of a power law.

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
    """Return the minimum number of experts of a rank whose weights are read (C,).

    Balanced rows use as many experts as possible. Uniform routing reads the expected number,
    E (1 - (1 - k/E)^T). Skewed routing may send all tokens to the same top_k.

    Args:
        distribution: As for `load_skew`.
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
