"""Designs of kernels: enumerated, priced without a GPU, compiled, measured where there is one."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.tune.chip import Chip, chip_of, constants
    from perfatlas.lab.tune.defaults import vllm_experts
    from perfatlas.lab.tune.kernels import Question
    from perfatlas.lab.tune.measured_search import MeasuredSearch, search_measured
    from perfatlas.lab.tune.selection import tile_classes
    from perfatlas.lab.tune.tables import launch_table, source_text
    from perfatlas.lab.tune.tuner import Tuning, design_time_s, half_width, tune
    from perfatlas.lab.tune.work import expert_layer, price_designs
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
