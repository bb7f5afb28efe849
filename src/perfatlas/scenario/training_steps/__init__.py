"""Training steps of named fields: reading, checks, prices, results and evidence."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.training_steps.breakdown import training_breakdown
    from perfatlas.scenario.training_steps.evidence import above_measured, evidence_of
    from perfatlas.scenario.training_steps.power import FACILITY
    from perfatlas.scenario.training_steps.priced_step import (
        TrainingStep, training_rows, training_step,
    )
    from perfatlas.scenario.training_steps.question import (
        RANKS, SIZES, ZERO, check_experts, data_parallel, question_of, read_training,
        read_without_layout,
    )
    from perfatlas.scenario.training_steps.recipe import TrainInputs, schedule_of
    from perfatlas.scenario.training_steps.results import STORAGE, training_results
    from perfatlas.scenario.training_steps.rules import OF_LANGUAGE_MODELS, refused_by_recipe
    from perfatlas.scenario.training_steps.traced_power import PowerOverTime, power_over_time
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
