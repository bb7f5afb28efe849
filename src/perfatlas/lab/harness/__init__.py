"""Kernels measured: clocks, the measuring loop, suites, records, and this machine as a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.harness.cases import (
        LAYERS as LAYERS,
        Case as Case,
        suite_cases as suite_cases,
        suite_document as suite_document,
        suite_file_cases as suite_file_cases,
        suite_names as suite_names,
    )
    from perfatlas.lab.harness.ceilings import (
        Ceilings as Ceilings,
        ceilings_of as ceilings_of,
        measured_ceilings as measured_ceilings,
    )
    from perfatlas.lab.harness.clocks import (
        CpuClock as CpuClock,
        GpuClock as GpuClock,
        Sample as Sample,
    )
    from perfatlas.lab.harness.comparison import compare_runs as compare_runs
    from perfatlas.lab.harness.decision import decided as decided
    from perfatlas.lab.harness.device import device_file as device_file
    from perfatlas.lab.harness.here import TARGETS as TARGETS, validate_here as validate_here
    from perfatlas.lab.harness.layers import layer_cases as layer_cases
    from perfatlas.lab.harness.loop import (
        Arm as Arm,
        Protocol as Protocol,
        measure as measure,
        one_thread as one_thread,
    )
    from perfatlas.lab.harness.machine import (
        Machine as Machine,
        Readings as Readings,
        Sensors as Sensors,
        require_torch as require_torch,
        this_machine as this_machine,
    )
    from perfatlas.lab.harness.records import (
        SHAPES as SHAPES,
        Bench as Bench,
        collected as collected,
        measured_rows as measured_rows,
        run_cases as run_cases,
    )
    from perfatlas.lab.harness.statistics import (
        TEST as TEST,
        clock_state as clock_state,
        different as different,
        median_interval as median_interval,
        ratio_interval as ratio_interval,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
