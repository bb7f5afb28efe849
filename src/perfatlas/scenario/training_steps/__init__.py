"""Training steps of named fields: reading, checks, prices, results and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.training_steps.breakdown import training_breakdown as training_breakdown
    from perfatlas.scenario.training_steps.evidence import (
        above_measured as above_measured,
        evidence_of as evidence_of,
    )
    from perfatlas.scenario.training_steps.graphs import OF_LANGUAGE_MODELS as OF_LANGUAGE_MODELS
    from perfatlas.scenario.training_steps.inputs import TrainInputs as TrainInputs
    from perfatlas.scenario.training_steps.power import FACILITY as FACILITY
    from perfatlas.scenario.training_steps.priced_step import (
        TrainingStep as TrainingStep,
        training_rows as training_rows,
        training_step as training_step,
    )
    from perfatlas.scenario.training_steps.question import (
        RANKS as RANKS,
        SIZES as SIZES,
        ZERO as ZERO,
        check_experts as check_experts,
        data_parallel as data_parallel,
        question_of as question_of,
        read_training as read_training,
        read_without_layout as read_without_layout,
        schedule_of as schedule_of,
    )
    from perfatlas.scenario.training_steps.recipe import refused_by_recipe as refused_by_recipe
    from perfatlas.scenario.training_steps.results import (
        STORAGE as STORAGE,
        training_results as training_results,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
