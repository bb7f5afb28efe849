"""One prefill or decode step of a rank: fusions, streams and host time, without traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.step.attention_speed import with_attention_speed as with_attention_speed
    from perfatlas.step.columns import (
        Candidates as Candidates,
        EngineLimits as EngineLimits,
        Load as Load,
        take_columns as take_columns,
    )
    from perfatlas.step.composition import (
        compose_streams as compose_streams,
        step_costs as step_costs,
    )
    from perfatlas.step.context import Placement as Placement, StepContext as StepContext
    from perfatlas.step.cost import (
        PricedStep as PricedStep,
        Step as Step,
        StepCost as StepCost,
        assumes_losses as assumes_losses,
    )
    from perfatlas.step.fusion import (
        conversions as conversions,
        fused_kinds as fused_kinds,
        kind_of as kind_of,
    )
    from perfatlas.step.gathered import gather_steps as gather_steps
    from perfatlas.step.graph_kernels import with_graph_kernels as with_graph_kernels
    from perfatlas.step.memory import (
        cache_limits as cache_limits,
        candidate_memory as candidate_memory,
        does_not_fit as does_not_fit,
    )
    from perfatlas.step.phases import (
        decode_step as decode_step,
        decode_work as decode_work,
        launched_operators as launched_operators,
        prefill_step as prefill_step,
        prefill_work as prefill_work,
        rank_operators as rank_operators,
        works_on_all_tokens as works_on_all_tokens,
    )
    from perfatlas.step.stages import (
        STAGES as STAGES,
        StagedSteps as StagedSteps,
        differs_by_transfers as differs_by_transfers,
        staged_steps as staged_steps,
    )
    from perfatlas.step.sums import StepClock as StepClock
    from perfatlas.step.tokens import (
        PrefillChunks as PrefillChunks,
        padded_batch as padded_batch,
        prefill_chunks as prefill_chunks,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
