"""The time, the memory and the waterfall of a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.step.bounds import (
        lower_bounds as lower_bounds,
        sharper_step_bounds as sharper_step_bounds,
    )
    from perfatlas.training.step.checkpoints import checkpoint_times as checkpoint_times
    from perfatlas.training.step.costs import (
        MicroBatchCosts as MicroBatchCosts,
        micro_batch_costs as micro_batch_costs,
    )
    from perfatlas.training.step.jitter import scale_error as scale_error
    from perfatlas.training.step.memory import TrainingMemory as TrainingMemory
    from perfatlas.training.step.pairs import pair_of_layers as pair_of_layers
    from perfatlas.training.step.power import ENERGY_PARTS as ENERGY_PARTS
    from perfatlas.training.step.question import (
        PRICED_AS as PRICED_AS,
        TRAINED_FORMATS as TRAINED_FORMATS,
        TrainingQuestion as TrainingQuestion,
    )
    from perfatlas.training.step.run import (
        FLOP_CONVENTION as FLOP_CONVENTION,
        WATERFALL as WATERFALL,
        TrainingSteps as TrainingSteps,
        layers_of_busiest as layers_of_busiest,
        training_steps as training_steps,
    )
    from perfatlas.training.step.states import (
        checkpoint_bytes as checkpoint_bytes,
        state_bytes as state_bytes,
    )
    from perfatlas.training.step.timeline import (
        StepTimeline as StepTimeline,
        step_timeline as step_timeline,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
