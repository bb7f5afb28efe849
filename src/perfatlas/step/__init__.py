"""One prefill or decode step of a rank: fusions, streams and host time, without traffic."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.step.gathered import gather_steps, with_attention_speed
    from perfatlas.step.columns import Candidates, EngineLimits, Load, take_columns
    from perfatlas.step.composition import compose_streams, step_costs
    from perfatlas.step.context import Placement, StepContext
    from perfatlas.step.cost import PricedStep, SharedSteps, Step, StepCost, assumes_losses
    from perfatlas.step.fusion import conversions, fused_kinds, kind_of
    from perfatlas.step.graph_kernels import with_graph_kernels
    from perfatlas.step.memory import cache_limits, candidate_memory, does_not_fit
    from perfatlas.step.phases import (
        decode_step, decode_work, launched_operators, prefill_step, prefill_work, rank_operators,
        works_on_all_tokens,
    )
    from perfatlas.step.rebalancing import rebalance_rates
    from perfatlas.step.stages import STAGES, StagedSteps, differs_by_transfers, staged_steps
    from perfatlas.step.sums import StepClock
    from perfatlas.step.tokens import PrefillChunks, padded_batch, prefill_chunks
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
