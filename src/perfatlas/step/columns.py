"""Typed columns of candidates: model, engine, systems, plans, load and limits.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.step.context import StepContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import Tier
    from perfatlas.networks import Model, ModelFormats
    from perfatlas.operators import FloatArray, IntArray, MeasuredLoads
    from perfatlas.parallelism import PlanColumns
    from perfatlas.step.context import Placement

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
        >>> from perfatlas.step.columns import decode_steps
        >>> decode_steps((1.0, 1.0, 1.0), np.array([0.0, 1.0, 4.0, 5.0])).tolist()
        [0.0, 1.0, 1.0, 2.0]
    """
    drafts = len(chances)
    accepted_K = np.concatenate([[1.0], np.cumprod(chances)])  # the first k drafts at least
    exactly_K = accepted_K - np.append(accepted_K[1:], 0.0)
    reach = int(min(tokens.max(initial=0.0), EXACT))
    steps = np.zeros(reach + drafts + 2)  # S(n) at n + drafts + 1
    for n in range(1, reach + 1):
        # S(n - 1), S(n - 2), ... S(n - drafts - 1)
        steps[n + drafts + 1] = 1.0 + exactly_K @ steps[n : n + drafts + 1][::-1]
    followed = np.minimum(tokens, reach).astype(np.int64)
    mean = float(exactly_K @ np.arange(1, drafts + 2))
    total_C: FloatArray = steps[followed + drafts + 1] + (tokens - followed) / mean
    return total_C


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """Engine limits of each candidate (C,); if kv_blocks is NaN, it is derived from memory."""

    max_num_seqs: FloatArray
    max_num_batched_tokens: FloatArray
    block_size: FloatArray
    gpu_memory_utilization: FloatArray
    kv_blocks: FloatArray
    transfer_buffer_bytes: FloatArray  # On each GPU of a worker of a pool [bytes]
    stream_interval: FloatArray
    server_processes: FloatArray
    scheduler_recv_interval: FloatArray
    rank_balance_iters: FloatArray


@dataclass(frozen=True, kw_only=True)
class Load:
    """Load of each candidate (C,): sequences per replica, and lengths.

    With fewer requests than replicas, busy replicas run one sequence each, and `occupancy` is the
    fraction of replicas that are busy. Clients that start together send `rounds` requests each, NaN
    for the steady state; `osl_spread` is the relative half-width of their output lengths.
    """

    occupancy: FloatArray
    sequences: FloatArray
    isl: FloatArray
    osl: FloatArray
    prefix: FloatArray
    rounds: FloatArray
    osl_spread: FloatArray


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Candidates that share model, engine, formats and tier; the rest are columns (C,)."""

    model: Model
    profile: EngineProfile
    formats: ModelFormats  # Resolved number formats
    tier: Tier  # Tier of pricing
    silicon_version: str  # Version of the measured tables, "" for that of the calibrations
    # "uniform", "balanced", "power_law_<alpha>" or measured loads
    expert_distribution: str | MeasuredLoads
    rebalance_steps: int  # Steps between rebalances of experts (EPLB), 0 to count none
    drafts: int  # Draft tokens per sequence and decode step, 0 without speculative decoding
    # Probability of each draft that it is accepted if all previous ones are
    draft_acceptance: tuple[float, ...]
    assumptions: tuple[str, ...]  # Assumptions made when resolving names
    placement: Placement  # System and clock of each candidate
    plan: PlanColumns  # Parallel sizes
    load: Load  # Sequences per replica and lengths
    limits: EngineLimits
    derived_plan_C: NDArray[np.bool_]  # Whether tp and dp were derived from a number of GPUs (C,)
    recipe_C: IntArray  # Index of the engine's recipe that set limits, -1 for none (C,)
    # Whether continuous batching is used; otherwise, a single static batch
    aggregated_C: NDArray[np.bool_]
    pooled: bool  # Whether the replicas are workers of a prefill or decode pool

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.aggregated_C.size)

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens per sequence and decode step: one plus the accepted drafts."""
        return 1.0 + float(np.cumprod(self.draft_acceptance).sum())

    @property
    def tokens_per_step_to_end(self) -> FloatArray:
        """Mean over whole outputs (C,), whose last step produces only the remaining tokens."""
        if not self.drafts:
            return np.ones_like(self.load.osl)
        after_first = self.load.osl - 1.0
        steps = decode_steps(self.draft_acceptance, after_first)
        tokens: FloatArray = np.where(after_first > 0, after_first / np.maximum(steps, 1.0), 1.0)
        return tokens

    @cached_property
    def placed(self) -> Placement:
        """The placement with the slice of a pod that each candidate is."""
        return self.placement.on_slices(self.plan.ranks)

    def context(self) -> StepContext:
        """Return the context shared by all steps of the candidates."""
        images, per_token_C = self.model.network.images, None
        if images is not None:
            per_token_C = images.number / (self.load.isl - self.load.prefix)
        return StepContext(
            network=self.model.network,
            formats=self.formats,
            profile=self.profile,
            placement=self.placed,
            plan=self.plan,
            tier=self.tier,
            expert_distribution=self.expert_distribution,
            rebalance_steps=self.rebalance_steps,
            silicon_version=self.silicon_version,
            drafts=self.drafts,
            images_per_token_C=per_token_C,
            history_C=0.5 * self.load.osl if self.profile.host.history_token_s() else None,
        )

    def take(self, rows: Sequence[int] | IntArray) -> Candidates:
        """Return the candidates at the given positions, in that order."""
        index = np.asarray(rows, np.int64)
        return replace(
            self,
            model=self.model.take(index),
            plan=replace(self.plan, **take_columns(self.plan, index)),
            load=replace(self.load, **take_columns(self.load, index)),
            limits=replace(self.limits, **take_columns(self.limits, index)),
            derived_plan_C=self.derived_plan_C[index],
            recipe_C=self.recipe_C[index],
            aggregated_C=self.aggregated_C[index],
            placement=self.placement.take(index),
        )


def take_columns(columns: object, index: IntArray) -> dict[str, Any]:
    """Return all columns of a dataclass of columns at the given positions, by name.

    Args:
        columns: A dataclass whose fields are arrays (C,).
    """
    return {name: values[index] for name, values in vars(columns).items()}
