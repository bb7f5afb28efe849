"""Designs of kernels: enumerated, priced without a GPU, compiled, measured where there is one."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.tune.chip import Chip, chip_of, constants, target_of
    from perfatlas.lab.tune.compiled import compile_designs
    from perfatlas.lab.tune.defaults import vllm_experts
    from perfatlas.lab.tune.kernels import Question, demands_of
    from perfatlas.lab.tune.measured_search import MeasuredSearch, search_measured
    from perfatlas.lab.tune.object_demand import Launch, family_of
    from perfatlas.lab.tune.object_time import compiler_loss, time_compiled
    from perfatlas.lab.tune.registry import registry_demands
    from perfatlas.lab.tune.selection import tile_classes
    from perfatlas.lab.tune.tables import launch_table, source_text
    from perfatlas.lab.tune.tuner import Tuning, design_time_s, half_width, tune
    from perfatlas.lab.tune.work import expert_layer, price_designs
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
