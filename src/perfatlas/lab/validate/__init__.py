"""Validation studies and their pages."""

from __future__ import annotations

from perfatlas.lab.validate.benchmarks import validate_serving
from perfatlas.lab.validate.blocks import validate_blocks
from perfatlas.lab.validate.capacity import validate_capacity
from perfatlas.lab.validate.kernels_page import write_page
from perfatlas.lab.validate.measured import validate_measured
from perfatlas.lab.validate.measured_medians import UnseenScore
from perfatlas.lab.validate.measured_page import write_measured_page
from perfatlas.lab.validate.steps import left_out_runs, validate_steps
from perfatlas.lab.validate.traffic import validate_traffic
from perfatlas.lab.validate.traffic_page import write_traffic_page

__all__ = [
    "UnseenScore",
    "left_out_runs",
    "validate_blocks",
    "validate_capacity",
    "validate_measured",
    "validate_serving",
    "validate_steps",
    "validate_traffic",
    "write_measured_page",
    "write_page",
    "write_traffic_page",
]
