"""Kernels measured: clocks, the measuring loop, suites, records, and this machine as a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.harness.clocks import (
        Clock as Clock,
        CpuClock as CpuClock,
        GpuClock as GpuClock,
        GpuTimer as GpuTimer,
        Sample as Sample,
        TorchTimer as TorchTimer,
    )
    from perfatlas.lab.harness.loop import (
        Arm as Arm,
        Measurement as Measurement,
        Protocol as Protocol,
        measure as measure,
        one_thread as one_thread,
    )
    from perfatlas.lab.harness.statistics import (
        TEST as TEST,
        MedianInterval as MedianInterval,
        clock_state as clock_state,
        different as different,
        median_interval as median_interval,
        ratio_interval as ratio_interval,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
