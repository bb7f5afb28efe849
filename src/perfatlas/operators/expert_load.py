"""How tokens are distributed over the experts of a layer, and over expert-parallel ranks.

Shape legend: C candidates, B equally frequent classes of experts, L layers, E experts, R ranks,
S slots for experts.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators.work import FloatArray

BALANCED: Final = 0.0  # equal loads: an expert is idle only if there are too few rows
UNIFORM: Final = -1.0  # tokens choose experts at random, independently: loads vary
# Expected maximum of n normal draws, within 0.1 standard deviations: EXTREME ln(n)^EXTREME_POWER.
EXTREME: Final = 0.87
EXTREME_POWER: Final = 0.7
CLASSES: Final = 48
RATIO_DIGITS: Final = 12  # of ratios of loads: equal loads are uniform routing to the last digit
# Most and least popular expert of a power law, as shares of the tokens and in tokens.
# Source: ai-dynamo/aiconfigurator, collector/helper.py, as for kernels.
MAX_TOKEN_SHARE: Final = 0.8
MIN_TOKENS: Final = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredLoads:
    """Measured loads of the experts of each MoE layer, and how experts are placed on ranks."""

    name: str  # Their origin
    share_LE: FloatArray  # Share of the rows of a layer that each of its experts gets, (L, E)
    balanced: bool = False  # Whether experts are placed by their loads (EPLB), else in order
    copies: int = 0  # Redundant experts of each layer
    found: dict[int, FloatArray] = field(default_factory=dict)  # `placed`, by the number of ranks

    def __str__(self) -> str:
        """Return what an answer says of them."""
        layers, experts = self.share_LE.shape
        placed = "placed by load (EPLB)" if self.balanced else "placed in order"
        return f"measured, {self.name}: {layers} layers of {experts} experts, {placed}"

    def busiest(self, ep: FloatArray) -> FloatArray:
        """Return the rows of the busiest of ep ranks over those of a mean one (C,).

        It is the mean over layers, as each layer waits for its busiest rank.

        Limits: Time is taken to be linear in the rows of the busiest rank.
        """
        ranks_U, found_C = np.unique(ep, return_inverse=True)
        busiest_U = [
            self.placed(int(ranks)).sum(axis=2).max(axis=1).mean() * ranks for ranks in ranks_U
        ]
        busiest_C: FloatArray = np.array(busiest_U)[np.ravel(found_C)]
        return busiest_C

    def placed(self, ranks: int) -> FloatArray:
        """Return the share of the rows of a layer that each slot of each rank gets (L, R, S)."""
        if ranks not in self.found:
            self.found[ranks] = np.array(
                [self._placed(share_E, ranks) for share_E in self.share_LE]
            )
        return self.found[ranks]

    def _placed(self, share_E: FloatArray, ranks: int) -> FloatArray:
        """Return the shares of one layer by rank (R, S).

        Source: deepseek-ai/EPLB, eplb.py: each redundant slot copies the expert with most rows per
            slot (replicate_experts); slots go, the most loaded first, to the least loaded rank
            with a free slot (balanced_packing).
        Limits: One group of ranks; the hierarchical packing into nodes is not followed.
        """
        if not self.balanced:
            return share_E.reshape(ranks, -1)
        copies_E = np.ones(share_E.size)
        for _ in range(self.copies):
            copies_E[np.argmax(share_E / copies_E)] += 1.0
        load_S = np.repeat(share_E / copies_E, copies_E.astype(np.int64))
        held = [(0.0, 0, rank) for rank in range(ranks)]
        load_RS = np.zeros((ranks, load_S.size // ranks))
        for load in np.sort(load_S)[::-1].tolist():
            total, slots, rank = heapq.heappop(held)
            load_RS[rank, slots] = load
            if slots + 1 < load_RS.shape[1]:
                heapq.heappush(held, (total + load, slots + 1, rank))
        return load_RS

    def most_active(self, tokens: FloatArray, top_k: FloatArray, ep: FloatArray) -> FloatArray:
        """Return the expected experts with rows of the rank that has most of them (C,).

        It is the mean over layers. As in `busiest_rank`, excess of the measured means and of the
        draws of a step are independent of each other.
        """
        sizes_CN = np.stack(np.broadcast_arrays(tokens, top_k, ep), axis=-1)
        sizes_UN, found_C = np.unique(sizes_CN, axis=0, return_inverse=True)
        active_U = np.empty(len(sizes_UN))
        for index, (drawn, chosen, ranks) in enumerate(sizes_UN.tolist()):
            share_LRS = self.placed(int(ranks))
            idle_LRS = (1.0 - np.minimum(chosen * share_LRS, 1.0)) ** drawn
            active_LR = (1.0 - idle_LRS).sum(axis=2)
            spread_L = (idle_LRS * (1.0 - idle_LRS)).sum(axis=2).mean(axis=1)
            mean_L = active_LR.mean(axis=1)
            drawn_L = _extreme(ranks) * np.sqrt(spread_L)
            most_L = mean_L + np.hypot(active_LR.max(axis=1) - mean_L, drawn_L)
            active_U[index] = np.minimum(most_L, share_LRS.shape[2]).mean()
        active_C: FloatArray = active_U[np.ravel(found_C)]
        return active_C

    def active_experts(self, tokens: FloatArray, top_k: FloatArray) -> FloatArray:
        """Return the expected experts with rows of all ranks, the mean over layers (C,)."""
        sizes_CN = np.stack(np.broadcast_arrays(tokens, top_k), axis=-1)
        sizes_UN, found_C = np.unique(sizes_CN, axis=0, return_inverse=True)
        idle_U = [
            ((1.0 - np.minimum(chosen * self.share_LE, 1.0)) ** drawn).sum(axis=1).mean()
            for drawn, chosen in sizes_UN.tolist()
        ]
        active_C: FloatArray = self.share_LE.shape[1] - np.array(idle_U)[np.ravel(found_C)]
        return active_C


def load_skew(distribution: str | MeasuredLoads) -> float:
    """Return the kernel argument: `UNIFORM`, `BALANCED` or the exponent of a power law.

    Args:
        distribution: "uniform", "balanced" or "power_law_<alpha>"; measured loads are those of
            uniform routing with a busier rank (`concentration`) and other experts in use
            (`active_share`).

    Example:
        >>> from perfatlas.operators import load_skew
        >>> load_skew("uniform"), load_skew("balanced"), load_skew("power_law_1.2")
        (-1.0, 0.0, 1.2)
    """
    if isinstance(distribution, MeasuredLoads) or distribution == "uniform":
        return UNIFORM
    if distribution == "balanced":
        return BALANCED
    return float(distribution.removeprefix("power_law_"))


def concentration(
    distribution: str | MeasuredLoads,
    tokens: FloatArray,
    experts: FloatArray,
    top_k: FloatArray,
    ep: FloatArray,
) -> FloatArray:
    """Return the rows of the busiest rank over those of uniform routing (C,): 1 unless measured.

    Args:
        distribution: As for `load_skew`; the others as for `busiest_rank`.
    """
    if not isinstance(distribution, MeasuredLoads):
        return np.ones_like(tokens)
    measured_C = busiest_rank(distribution, tokens, experts, top_k, ep)
    uniform_C = busiest_rank("uniform", tokens, experts, top_k, ep)
    return np.round(measured_C / uniform_C, RATIO_DIGITS)


def active_share(
    distribution: str | MeasuredLoads,
    tokens: FloatArray,
    experts: FloatArray,
    top_k: FloatArray,
    ep: FloatArray,
) -> FloatArray:
    """Return the experts that a rank reads over those of uniform routing (C,): 1 unless measured.

    Args:
        distribution: As for `load_skew`; the others as for `busiest_rank`.
    """
    if not isinstance(distribution, MeasuredLoads):
        return np.ones_like(tokens)
    held_C, idle_C = experts / ep, (1.0 - np.minimum(top_k / experts, 1.0)) ** tokens
    drawn_C = _extreme(ep) * np.sqrt(held_C * idle_C * (1.0 - idle_C))
    uniform_C = np.minimum(held_C * (1.0 - idle_C) + drawn_C, held_C)
    measured_C = distribution.most_active(tokens, top_k, ep)
    return np.round(measured_C / uniform_C, RATIO_DIGITS)


def least_active_experts(
    distribution: str | MeasuredLoads,
    tokens: FloatArray,
    experts: FloatArray,
    top_k: FloatArray,
    ep: FloatArray,
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
    if isinstance(distribution, MeasuredLoads):
        active = distribution.active_experts(tokens, top_k) / ep
    elif skew == BALANCED:
        active = rows
    elif skew == UNIFORM:
        share = np.minimum(top_k / experts, 1.0)
        active = experts / ep * (1.0 - (1.0 - share) ** tokens)
    else:
        active = np.minimum(rows, top_k / ep)
    least: FloatArray = np.minimum(active, experts / ep)
    return least


def busiest_rank(
    distribution: str | MeasuredLoads,
    tokens: FloatArray,
    experts: float | FloatArray,
    top_k: float | FloatArray,
    ep: FloatArray,
) -> FloatArray:
    """Return the rows of the busiest expert-parallel rank over those of a mean one (C,).

    Args:
        distribution: Routing of tokens to experts.
        tokens: Tokens of all ranks of the group (C,).
        experts: Routed experts of the layer, the same of all candidates or (C,).
        top_k: Experts per token, likewise.
        ep: Expert-parallel ranks (C,).

    Source: derived: the loads of ranks are sums of the loads of their experts, taken as normal.
        Uniform routing: rows of a rank are hypergeometric per token. Power law: popularity of an
        expert has the density x^-alpha. Measured loads: excess of the measured means, and of the
        draws of a step, as for uniform routing, which are independent of each other.
    Limits: Popular experts are on random ranks; no redundant experts and no auxiliary loss, unless
        loads are measured.

    Example:
        >>> import numpy as np
        >>> from perfatlas.operators import busiest_rank
        >>> one = busiest_rank("balanced", np.array([4096.0]), 256, 8, np.array([64.0]))
        >>> one.tolist()
        [1.0]
    """
    if isinstance(distribution, MeasuredLoads):
        drawn_C = busiest_rank("uniform", tokens, experts, top_k, ep)
        measured_C = distribution.busiest(np.broadcast_to(ep, drawn_C.shape))
        most_C = np.minimum(ep, np.maximum(experts / top_k, 1.0))  # every token sends its maximum
        return np.minimum(1.0 + np.hypot(measured_C - 1.0, drawn_C - 1.0), np.maximum(most_C, 1.0))
    skew = load_skew(distribution)
    ones_C = np.ones_like(tokens)
    if skew == UNIFORM:
        rows_C = tokens * top_k / ep
        spread_C = (
            (1.0 - 1.0 / ep) * np.maximum(experts - top_k, 0.0) / np.maximum(experts - 1.0, 1.0)
        )
        deviation_C = np.sqrt(spread_C / rows_C)
    elif skew > 0.0:
        deviation_C = _power_law_deviation(tokens, skew, experts) / np.sqrt(experts / ep)
    else:
        return ones_C
    extreme_C = _extreme(ep)
    most_C = np.minimum(ep, np.maximum(experts / top_k, 1.0))  # every token sends its maximum
    busiest_C: FloatArray = np.where(
        ep > 1.0, np.minimum(1.0 + extreme_C * deviation_C, most_C), ones_C
    )
    return busiest_C


def _extreme(ranks: float | FloatArray) -> FloatArray:
    """Return the expected maximum over ranks, in standard deviations: 0 for one rank."""
    deviations: FloatArray = EXTREME * np.log(np.maximum(ranks, 1.0)) ** EXTREME_POWER
    return deviations


def _power_law_deviation(
    tokens: FloatArray, skew: float, experts: float | FloatArray
) -> FloatArray:
    """Return the standard deviation of the popularity of experts over its mean (C,)."""
    classes = int(min(np.max(experts), CLASSES))
    share_B = (np.arange(classes) + 0.5) / classes
    high_C1 = np.maximum(MAX_TOKEN_SHARE * tokens, MIN_TOKENS * 1.001)[:, None]
    exponent = 1.0 - skew
    if abs(exponent) < 1e-6:
        load_CB = MIN_TOKENS * (high_C1 / MIN_TOKENS) ** share_B
    else:
        bottom, top_C1 = MIN_TOKENS**exponent, high_C1**exponent
        load_CB = ((top_C1 - bottom) * share_B + bottom) ** (1.0 / exponent)
    deviation_C: FloatArray = load_CB.std(axis=1) / load_CB.mean(axis=1)
    return deviation_C
