"""Validation studies and their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.validate.benchmarks import validate_serving as validate_serving
    from perfatlas.lab.validate.blocks import validate_blocks as validate_blocks
    from perfatlas.lab.validate.capacity import validate_capacity as validate_capacity
    from perfatlas.lab.validate.measured import validate_measured as validate_measured
    from perfatlas.lab.validate.measured_medians import UnseenScore as UnseenScore
    from perfatlas.lab.validate.measured_page import write_measured_page as write_measured_page
    from perfatlas.lab.validate.steps import validate_steps as validate_steps
    from perfatlas.lab.validate.traffic import validate_traffic as validate_traffic
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
