"""The time, the memory and the waterfall of a training step."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.step.bounds import lower_bounds, sharper_step_bounds
    from perfatlas.training.step.checkpoints import checkpoint_times
    from perfatlas.training.step.costs import MicroBatchCosts, micro_batch_costs
    from perfatlas.training.step.jitter import scale_error
    from perfatlas.training.step.memory import TrainingMemory
    from perfatlas.training.step.pairs import pair_of_layers
    from perfatlas.training.step.power_courses import rank_courses
    from perfatlas.training.step.question import PRICED_AS, TRAINED_FORMATS, TrainingQuestion
    from perfatlas.training.step.run import (
        FLOP_CONVENTION, WATERFALL, TrainingSteps, layers_of_busiest, training_steps,
    )
    from perfatlas.training.step.states import checkpoint_bytes, state_bytes
    from perfatlas.training.step.timeline import StepTimeline, step_timeline
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
