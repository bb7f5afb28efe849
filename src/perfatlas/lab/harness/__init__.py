"""Kernels measured: clocks, the measuring loop, suites, records, and this machine as a device."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.harness.cases import (
        LAYERS, Case, suite_cases, suite_document, suite_file_cases, suite_names,
    )
    from perfatlas.lab.harness.ceilings import Ceilings, ceilings_of, measured_ceilings
    from perfatlas.lab.harness.clocks import CpuClock, GpuClock, Sample
    from perfatlas.lab.harness.comparison import compare_runs
    from perfatlas.lab.harness.decision import decided
    from perfatlas.lab.harness.device import device_file
    from perfatlas.lab.harness.here import TARGETS, validate_here
    from perfatlas.lab.harness.layers import layer_cases
    from perfatlas.lab.harness.loop import Arm, Protocol, measure, one_thread
    from perfatlas.lab.harness.machine import (
        Machine, Readings, Sensors, require_torch, this_machine,
    )
    from perfatlas.lab.harness.records import SHAPES, Bench, collected, measured_rows, run_cases
    from perfatlas.lab.harness.statistics import (
        TEST, clock_state, different, median_interval, ratio_interval,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
