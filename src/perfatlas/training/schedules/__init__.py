"""Pipeline schedules, one module each: order of the passes, step time, bubbles and timeline."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.schedules.columns import Pipelines, PipelineSteps
    from perfatlas.training.schedules.placement import stages_of_ranks
    from perfatlas.training.schedules.schedule import PipelineSize
    from perfatlas.training.schedules.steps import peak_activations, pipeline_steps
    from perfatlas.training.schedules.table import SCHEDULES, find_schedule
    from perfatlas.training.schedules.timeline import pipeline_timeline
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
